"""Networks for text, and rename tables for published weights."""

from fl_text.models.bert import BERT as BERT
from fl_text.models.bert import BERT_HUGGING_FACE as BERT_HUGGING_FACE
from fl_text.models.bert import MASKED_LM_HUGGING_FACE as MASKED_LM_HUGGING_FACE
from fl_text.models.bert import MaskedLM as MaskedLM
from fl_text.models.caches import Cache as Cache
from fl_text.models.caches import StateCache as StateCache
from fl_text.models.gcnn import GCNN as GCNN
from fl_text.models.gcnn import GCNN_14B as GCNN_14B
from fl_text.models.gpt2 import GPT2 as GPT2
from fl_text.models.gpt2 import GPT2_BODY_HUGGING_FACE as GPT2_BODY_HUGGING_FACE
from fl_text.models.gpt2 import GPT2_HUGGING_FACE as GPT2_HUGGING_FACE
from fl_text.models.gru_classifier import GRUClassifier as GRUClassifier
from fl_text.models.huggingface import GenerationSettings as GenerationSettings
from fl_text.models.huggingface import PublishedLanguageModel as PublishedLanguageModel
from fl_text.models.huggingface import load_language_model as load_language_model
from fl_text.models.llama import LLAMA_HUGGING_FACE as LLAMA_HUGGING_FACE
from fl_text.models.llama import Llama as Llama
from fl_text.models.lstm import LSTMLanguageModel as LSTMLanguageModel
from fl_text.models.protocols import CausalNetwork as CausalNetwork
from fl_text.models.protocols import TokenNetwork as TokenNetwork
from fl_text.models.transformer_lm import TransformerLanguageModel as TransformerLanguageModel
