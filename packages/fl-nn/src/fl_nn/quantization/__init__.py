"""Weights as 8-bit integers with a scale for each output, for evaluation.

They take a quarter of the memory. Generation is faster, as reading weights takes most of its time.

    model = quantization.quantize_weights(model.eval())
    nn.save_weights("small.safetensors", model)

    with ft.use("null"):                       # floating weights are never allocated
        model = quantization.quantize_weights(Network())
    nn.load_weights("small.safetensors", model)
"""

from fl_nn.quantization.apply import quantize_weights as quantize_weights
from fl_nn.quantization.layers import Int8Embedding as Int8Embedding
from fl_nn.quantization.layers import Int8Linear as Int8Linear
from fl_nn.quantization.layers import Int8MultiHeadAttention as Int8MultiHeadAttention
from fl_nn.quantization.layers import times_int8 as times_int8
