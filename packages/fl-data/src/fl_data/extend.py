"""Parts of fl-data for packages that define datasets of their own.

Provisional: names may change before 1.0.
"""

from fl_data.seeds import Seed as Seed
