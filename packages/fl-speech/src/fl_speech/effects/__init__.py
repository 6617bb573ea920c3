"""Sound effects for the augmentation of recordings, alone, in chains, and from JSON files."""

from fl_speech.effects.amplitude import Amplify as Amplify
from fl_speech.effects.amplitude import ClampAmplitude as ClampAmplitude
from fl_speech.effects.amplitude import Normalize as Normalize
from fl_speech.effects.chain import SoundEffectChain as SoundEffectChain
from fl_speech.effects.config import create_effects as create_effects
from fl_speech.effects.config import read_effects as read_effects
from fl_speech.effects.config import write_effects as write_effects
from fl_speech.effects.effect import SoundEffect as SoundEffect
from fl_speech.effects.noise import AdditiveNoise as AdditiveNoise
from fl_speech.effects.noise import GaussianNoise as GaussianNoise
from fl_speech.effects.reverb import ReverbEcho as ReverbEcho
from fl_speech.effects.stretch import TimeStretch as TimeStretch
from fl_speech.effects.stretch import time_stretch as time_stretch
