"""Rename tables for published weights of DETR with a ResNet."""

from __future__ import annotations

from fl_nn.rename import Ignore, Merge, Rule, Table
from fl_vision.models.resnet import RESNET_HUGGING_FACE

_BACKBONE = "backbone.0.body"


def _original() -> Table:
    return Table(
        Ignore(f"{_BACKBONE}.{{rest:path}}.num_batches_tracked"),
        Rule(f"{_BACKBONE}.{{rest:path}}", "backbone.{rest:path}"),
        Rule("transformer.encoder.layers.{rest:path}", "encoder.{rest:path}"),
        Rule("transformer.decoder.layers.{rest:path}", "decoder.{rest:path}"),
        Rule("transformer.decoder.norm.{p}", "norm.{p}"),
        Rule("query_embed.weight", "query_embed"),
        Rule("{head}_embed.{rest:path}", "{head}_embed.{rest:path}"),
        Rule("input_proj.{p}", "input_proj.{p}"),
    )


def _attention(theirs: str, ours: str, output: str) -> list[Rule]:
    return [
        Rule([f"{theirs}.{part}_proj.{{p}}" for part in "qkv"], f"{ours}.in_proj_{{p}}", Merge(3)),
        Rule(f"{theirs}.{output}.{{p}}", f"{ours}.out_proj.{{p}}"),
    ]


def _layers(output: str, feed_forward: str) -> list[Rule]:
    rules = []
    for part in "encoder", "decoder":
        theirs, ours = f"model.{part}.layers.{{i}}", f"{part}.{{i}}"
        rules += _attention(f"{theirs}.self_attn", f"{ours}.self_attn", output)
        norms = ["self_attn_layer_norm", "final_layer_norm"]
        if part == "decoder":
            rules += _attention(f"{theirs}.encoder_attn", f"{ours}.multihead_attn", output)
            norms.insert(1, "encoder_attn_layer_norm")
        rules += [
            Rule(f"{theirs}.{feed_forward}1.{{p}}", f"{ours}.linear1.{{p}}"),
            Rule(f"{theirs}.{feed_forward}2.{{p}}", f"{ours}.linear2.{{p}}"),
        ]
        rules += [
            Rule(f"{theirs}.{norm}.{{p}}", f"{ours}.norm{place}.{{p}}")
            for place, norm in enumerate(norms, 1)
        ]
    return rules


def _backbone(prefix: str) -> list[Rule]:
    return [
        Rule([name.replace("resnet.", f"{prefix}.", 1) for name in rule.theirs], rule.ours).below(
            "", "backbone."
        )
        for rule in RESNET_HUGGING_FACE.rules
        if isinstance(rule, Rule) and not rule.theirs[0].startswith("classifier")
    ]


def _hugging_face() -> Table:
    # The first rule that fits a name of ours writes it, so the names of files come before those of
    # the state dicts of version 5, which are read as well.
    body = "model.backbone.conv_encoder.model"
    return Table(
        Ignore("model.backbone.{rest:path}.num_batches_tracked"),
        *_backbone(body),
        *_backbone("model.backbone.model"),
        *(
            Rule(f"{body}.{part}{{rest:path}}", f"backbone.{part}{{rest:path}}")
            for part in ("conv1.", "bn1.", "layer")  # with the backbone of timm
        ),
        *_layers("out_proj", "fc"),
        *_layers("o_proj", "mlp.fc"),
        Rule("model.decoder.layernorm.{p}", "norm.{p}"),
        Rule("model.query_position_embeddings.weight", "query_embed"),
        Rule("model.input_projection.{p}", "input_proj.{p}"),
        Rule("class_labels_classifier.{p}", "class_embed.{p}"),
        Rule("bbox_predictor.{rest:path}", "bbox_embed.{rest:path}"),
    )


#: The authors' files: build the model with `detr_resnet50`.
DETR_ORIGINAL = _original()
#: Files of transformers' DetrForObjectDetection. The backbone is transformers' or timm's; it writes
#: the former.
DETR_HUGGING_FACE = _hugging_face()
