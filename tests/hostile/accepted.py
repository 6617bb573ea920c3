"""Bad values that are taken on purpose, each with its reason.

Keys are patterns of the names of cases. A pattern that matches nothing accepted fails.
"""

from __future__ import annotations

ACCEPTED: dict[str, str] = {
    "ag.grad(inputs=[])": "no inputs have no gradients",
    "ag.value_and_grad(argnums=3)": "how many arguments there are shows in the call",
    "data.*=[])": "a list of no samples is a data set",
    "data.Batch(size=[2])": "one size for each batch",
    "data.BucketBatch(boundaries=[2])": "one boundary",
    "data.*(seed=None)": "drawn from the default generator",
    "data.Prefetch(threads=0)": "samples are made where they are asked for",
    "data.Span(length=*": "0 is a span of nothing, None all that is left",
    "data.check_index(index=-1)": "counted from the end",
    "data.dynamic_partition_by_round_robin(max_size=inf)": "no bound",
    "ft.broadcast_shapes(0=(1,) * 1000)": "shapes alone: no array has them",
    "ft.roll(axis=(0, 0))": "both shifts, one after the other, as in NumPy",
    "ft.split(sizes=[2])": "all of the axis is one part",
    "ft.tile(repeats=[2])": "along the last axis",
    "data.CachedTransform(folder=below a missing folder)": "folders are made",
    "data.CachedTransform(folder=a folder)": "there records are kept",
    "data.DynamicBatch(max_size=inf)": "no bound",
    "data.Prefetch(*=None)": "as many as there are processors",
    "data.pad_collate(fill={'a': 1})": "a fill for each field",
    "ft.printoptions(threshold=inf)": "no summary, as in NumPy",
    "ft.set_printoptions(threshold=inf)": "no summary, as in NumPy",
    "nn.LayerNorm(shape=[2])": "one axis",
    "nn.RMSNorm(shape=[2])": "one axis",
    "nn.clip_grad_value_(clip_value=inf)": "no bound",
    "speech.load_audio(samples=0)": "a signal of nothing",
    "vision.read_image of a damaged file(path=a file without its last byte)": "the end of a PNG's "
    "last chunk is a checksum of nothing",
    "ft.*percentile(q=a list)": "several shares",
    "data.CachedTransform(folder=None)": "records are kept in memory",
    "nn.Normalize(p=inf)": "the largest magnitude",
    "nn.Trainer fits(epochs=0)": "no epoch is asked for",
    "nn.derive_padding(size=0)": "an axis of nothing",
    "nn.ClipGradNorm(max_norm=inf)": "no bound: the norm is only measured",
    "nn.clip_grad_norm_(max_norm=inf)": "no bound: the norm is only measured",
    "nn.save_weights(shard_size=None)": "one file",
    "nn.LBFGS(max_eval=None)": "as many as max_iter needs",
    "nn.SpectralNorm(axis=None)": "the axis of the outputs of that layer",
    "nn.Upsample(size=[2])": "one size for each of one spatial axis",
    "nn.WeightNorm(axis=None)": "one norm of the whole weight",
    "speech.load_audio(*=None)": "all samples, or at the rate of the file",
    "speech.fit_length(length=0)": "a signal of nothing",
    **{
        f"nn.{name}(*=[2])": "one int for each axis, of which there is one"
        for name in "Conv1D ConvTranspose1D AsymmetricConv1D Pool1D AdaptiveAvgPool1D".split()
    },
    "nn.clip_grad_norm_(parameters=[])": "a model that is frozen has nothing to clip",
    "nn.clip_grad_value_(parameters=[])": "a model that is frozen has nothing to clip",
    "nn.save_weights(path=below a missing folder)": "folders are made",
    "nn.save_checkpoint(path=below a missing folder)": "folders are made",
    "nn.save_tensors(path=below a missing folder)": "folders are made",
    "ft.ops_for(base=*": "every operation calls it: it trusts the extensions that do",
    "ft.*percentile(q=b'1')": "bytes are a buffer of uint8",
    "ft.trace(whole=['x'])": "a name that no operation of the block has selects nothing",
}
