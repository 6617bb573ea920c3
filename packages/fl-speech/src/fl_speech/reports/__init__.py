"""Reports of recognition: error rates, alignments, confusions."""

from fl_speech.reports.alignment import Pair as Pair
from fl_speech.reports.alignment import align_tokens as align_tokens
from fl_speech.reports.report import ErrorReport as ErrorReport
from fl_speech.reports.report import ReportLine as ReportLine
