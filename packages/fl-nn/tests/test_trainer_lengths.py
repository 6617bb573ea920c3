"""Training on padded batches: lengths go to the model, the last field is the target."""

from __future__ import annotations

import pytest

import fl_data as data
import fl_nn as nn
import fl_tensor as ft


class Sequences(data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return ft.ones((index + 1, 3)) * index, index % 2


class Model(nn.Module):
    def __init__(self):
        self.head = nn.Linear(3, 2)
        self.seen = []

    def forward(self, x, lengths):
        self.seen.append((x.shape, lengths.tolist()))
        return self.head(ft.sum(x, 1) / lengths[:, None].astype("float32"))


@pytest.mark.defect("P15")
def test_lengths_of_padded_fields_reach_the_model():
    batches = data.Batch(Sequences(), 3, collate=data.pad_collate(lengths=True))
    arranged = data.Transform(batches, lambda batch: (batch[0], batch[2], batch[1]))
    model = Model()
    trainer = nn.Trainer(
        model, nn.SGD(model.parameters(), lr=0.1), nn.cross_entropy, progress=False
    )
    trainer.fit(arranged, epochs=1)
    assert model.seen == [((3, 3, 3), [1, 2, 3]), ((3, 6, 3), [4, 5, 6])]
    with pytest.raises(nn.TrainingError, match=r"Transform\(batches"):
        trainer.predict(arranged)
    outputs = trainer.predict(data.Transform(arranged, lambda batch: batch[:2]))
    assert [output.shape for output in outputs] == [(3, 2), (3, 2)]
