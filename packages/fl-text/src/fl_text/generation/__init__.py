"""Text from causal networks, such as `fl_text.models.GPT2`: greedy, sampled, by beam search."""

from fl_text.generation.beams import beam_search as beam_search
from fl_text.generation.network import CausalNetwork as CausalNetwork
from fl_text.generation.network import CompiledNetwork as CompiledNetwork
from fl_text.generation.processors import LogitsProcessor as LogitsProcessor
from fl_text.generation.processors import MinP as MinP
from fl_text.generation.processors import RepetitionPenalty as RepetitionPenalty
from fl_text.generation.processors import Temperature as Temperature
from fl_text.generation.processors import TopK as TopK
from fl_text.generation.processors import TopP as TopP
from fl_text.generation.results import Generation as Generation
from fl_text.generation.results import Piece as Piece
from fl_text.generation.sampling import generate as generate
from fl_text.generation.sampling import stream as stream
