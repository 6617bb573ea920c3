"""Pictures of results, drawn with Pillow."""

from fl_vision.draw.curves import Panel as Panel
from fl_vision.draw.curves import Series as Series
from fl_vision.draw.curves import draw_curves as draw_curves
from fl_vision.draw.grid import Prediction as Prediction
from fl_vision.draw.grid import Section as Section
from fl_vision.draw.grid import draw_grid as draw_grid
