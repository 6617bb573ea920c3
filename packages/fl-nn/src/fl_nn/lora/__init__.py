"""Low-rank adaptation (LoRA): small matrices beside frozen weights, which alone are trained.

model = lora.apply_lora(model, rank=8, alpha=16, targets=["q_proj", "v_proj"])
...                                                # train as usual
lora.save_adapter("adapter", model, rename=LLAMA_HUGGING_FACE)
lora.merge_lora(model)                             # the same outputs, at no cost
"""

from fl_nn.lora.apply import adapters as adapters
from fl_nn.lora.apply import apply_lora as apply_lora
from fl_nn.lora.apply import merge_lora as merge_lora
from fl_nn.lora.apply import remove_lora as remove_lora
from fl_nn.lora.apply import unmerge_lora as unmerge_lora
from fl_nn.lora.files import load_adapter as load_adapter
from fl_nn.lora.files import save_adapter as save_adapter
from fl_nn.lora.layers import LoRALinear as LoRALinear
from fl_nn.lora.layers import LoRAMultiHeadAttention as LoRAMultiHeadAttention
from fl_nn.lora.layers import LowRank as LowRank
