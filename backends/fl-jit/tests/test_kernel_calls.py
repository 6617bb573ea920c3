"""Kernel calls: which part of an operand a kernel reads, and whether it reads a copy."""

from __future__ import annotations

import pytest

from fl_jit.eager.kernel_calls import ConvParameters, kernel_call
from fl_jit.kernels import ConvDataGrad, Convolution, ConvWeightGrad, Layout, Packed, row_major
from fl_tensor import float32

Y, OUT = row_major(float32, (12, 7)), row_major(float32, (9, 7))
#: A batch of three matrices for one matrix y: layout of x, as the kernel reads it, whether copied.
MATRICES = {
    "in C order": ((9, 12), (12, 1), (9, 12), (12, 1), False),
    "transposed": ((9, 12), (1, 9), (9, 12), (1, 9), False),
    "with a pitch": ((9, 12), (20, 1), (9, 12), (20, 1), False),
    "every second column": ((9, 12), (24, 2), (9, 12), (12, 1), True),
    "backwards": ((9, 12), (-12, 1), (9, 12), (12, 1), True),
    "one row for all": ((9, 12), (0, 1), (9, 12), (12, 1), True),
    "a batch of rows": ((3, 3, 12), (36, 12, 1), (9, 12), (12, 1), False),
    "a batch with gaps": ((3, 3, 12), (40, 12, 1), (3, 3, 12), (40, 12, 1), False),
    "one matrix for all": ((3, 3, 12), (0, 12, 1), (1, 3, 12), (0, 12, 1), False),
}


@pytest.mark.parametrize("case", MATRICES.values(), ids=MATRICES)
def test_what_a_product_reads(case):
    shape, strides, read_shape, read_strides, copies = case
    out = row_major(float32, (*shape[:-1], 7))
    call = kernel_call("matmul", Layout(float32, shape, strides), Y, out)
    x, y = call.views
    assert (x.operand, y.operand) == (0, 1) and not y.copies
    assert call.descriptor.x == Layout(float32, read_shape, read_strides)
    assert x.copies is copies and x.offset == 0
    assert len(call.descriptor.y.shape) == len(call.descriptor.out.shape) == len(read_shape)


def test_prepacked_weights_meet_one_matrix():
    packed = Packed(float32, (12, 7), 1024, "panels")
    call = kernel_call("matmul", row_major(float32, (9, 12)), packed, OUT)
    assert call.descriptor.y is packed and call.views[1].layout is packed
    batch = Layout(float32, (3, 3, 12), (40, 12, 1))
    assert kernel_call("matmul", batch, packed, row_major(float32, (3, 3, 7))) is None


def conv(op, *shapes, stride=1, padding=((1, 1), (1, 1)), dilation=1, groups=1):
    parameters = ConvParameters((stride,) * 2, padding, (dilation,) * 2, (1, 1), groups)
    return kernel_call(op, *[row_major(float32, shape) for shape in shapes], parameters)


def test_negative_padding_crops_the_input():
    call = conv("conv", (2, 8, 6, 6), (16, 8, 3, 3), (2, 16, 3, 6), padding=((-1, 0), (1, 1)))
    assert isinstance(call.descriptor, Convolution)
    assert call.descriptor.padding == ((0, 0), (1, 1))
    assert call.descriptor.x == Layout(float32, (2, 8, 5, 6), (288, 36, 6, 1))
    assert call.views[0].offset == 6 and not call.views[0].copies
    assert (
        conv("conv", (2, 8, 6, 6), (16, 8, 3, 3), (2, 16, 1, 6), padding=((-6, 3), (1, 1))) is None
    )


def test_a_dilated_input_is_a_transposed_convolution_with_the_kernel_flipped():
    call = conv("conv", (2, 8, 6, 6), (16, 4, 3, 3), (2, 16, 11, 11), dilation=2, groups=2)
    assert isinstance(call.descriptor, ConvDataGrad) and call.descriptor.stride == (2, 2)
    weights = call.views[1]
    assert weights.layout == Layout(float32, (2, 4, 8, 3, 3), (288, 9, 36, -3, -1))
    assert weights.offset == 8 and weights.copies
    assert call.descriptor.w == row_major(float32, (2, 4, 8, 3, 3))
    strided = conv("conv", (2, 8, 6, 6), (16, 8, 3, 3), (2, 16, 6, 6), dilation=2, stride=2)
    assert strided is None


def test_a_gradient_of_weights_reads_the_images_first_and_no_pixel_beyond_the_windows():
    shapes = (2, 16, 3, 3), (2, 8, 8, 8), (16, 8, 3, 3)
    call = conv("conv_weight_gradient", *shapes, stride=2)
    assert isinstance(call.descriptor, ConvWeightGrad)
    assert [view.operand for view in call.views] == [1, 0]
    assert call.descriptor.x == Layout(float32, (2, 8, 6, 6), (512, 64, 8, 1))
    assert call.descriptor.padding == ((1, 0), (1, 0))


@pytest.mark.parametrize("op", ["conv_data_gradient", "conv_weight_gradient"])
def test_gradients_of_dilated_inputs_have_no_kernel(op):
    assert conv(op, (2, 16, 11, 11), (16, 8, 3, 3), (2, 8, 6, 6), dilation=2) is None
