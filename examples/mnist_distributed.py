"""Handwritten digits: a convolutional network, trained by two workers around Shoal's parameter server.

    python examples/mnist_distributed.py FOLDER --mode ssp            # or sync, async, local
    python examples/mnist_distributed.py FOLDER --mode sync --kill    # kills a worker on the way

FOLDER has MNIST in its own format (train-images-idx3-ubyte and so on, packed by gzip or not), or is a .npz file with
x_train, y_train, x_test and y_test. While it runs, `shoal show last` and the dashboard show and steer it.
docs/networks.md explains it step by step.
"""

from __future__ import annotations

import argparse
import gzip
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

import shoal

Images = npt.NDArray[np.uint8]
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


class DigitNet(nn.Module):
    """Two convolutions and two linear layers: 56,714 parameters. Pixels come as bytes from 0 to 255."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.digits = nn.Sequential(nn.Flatten(), nn.Linear(800, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))

    def forward(self, pixels: Tensor) -> Tensor:
        found: Tensor = self.digits(self.features(pixels.unsqueeze(1) / 255 - 0.13))
        return found


def read(folder: Path) -> tuple[Images, Images, Images, Images]:
    """Images (n, 28, 28) and labels (n,) to train on, and those to test with."""
    if folder.suffix == ".npz":
        with np.load(folder) as found:
            return tuple(found[name] for name in ("x_train", "y_train", "x_test", "y_test"))  # type: ignore[return-value]
    return tuple(_idx(folder, name) for name in FILES)  # type: ignore[return-value]


def _idx(folder: Path, name: str) -> Images:
    """A file of MNIST: two zeros, the type (8: bytes), the number of dimensions, each of them, then the bytes."""
    packed = folder / f"{name}.gz"
    data = gzip.decompress(packed.read_bytes()) if packed.exists() else (folder / name).read_bytes()
    if data[:3] != b"\0\0\x08":
        raise SystemExit(f"Expected '{folder / name}' in MNIST's format, got another beginning.")
    shape = np.frombuffer(data, ">i4", data[3], 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def main() -> None:
    parser = argparse.ArgumentParser(description="A convolutional network on MNIST, by several workers.")
    parser.add_argument("folder", type=Path, help="where MNIST is, or a .npz file")
    parser.add_argument("--mode", default="sync", choices=["sync", "ssp", "async", "local"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rows", type=int, default=60_000, help="of the training images")
    parser.add_argument("--kill", action="store_true", help="kill a worker as soon as there are two")
    chosen = parser.parse_args()
    images, labels, test_images, test_labels = read(chosen.folder)
    torch.manual_seed(0)
    net = DigitNet()
    # Steps within a shard are plain ones in mode local; in the others AdamW's, on the server.
    steps = {"learning_rate": 0.1, "local_steps": 16} if chosen.mode == "local" else {"learning_rate": 1e-3}
    started = time.monotonic()
    run = shoal.train_module(
        net, (images[: chosen.rows], labels[: chosen.rows].astype(np.int64)), "cross_entropy",
        test=(test_images, test_labels.astype(np.int64)), mode=chosen.mode, workers=chosen.workers,
        epochs=chosen.epochs, batch_size=16, wait=False, **steps,
    )  # fmt: skip
    print(f"run {run.id}: see it with `shoal show {run.id}` or in the dashboard")
    if chosen.kill:
        kill_one(run)
    run.wait()
    print(run)
    first, *_, last = run.history
    rows = chosen.epochs * len(images[: chosen.rows]) / max(last.seconds - first.seconds, 1e-9)
    print(f"{time.monotonic() - started:.0f} s in all; {rows:,.0f} rows a second from the first round to the last")
    with torch.no_grad():  # the module that was given has learnt
        said = run.module.eval()(torch.tensor(test_images[:10], dtype=torch.float32)).argmax(1).tolist()
    print(f"the first ten test images: {said}, which are {test_labels[:10].tolist()}")


def kill_one(run: shoal.ModuleRun) -> None:
    """As soon as it has begun: the server gives the batches in its hands to another."""
    while not (run.history and run.history[-1].workers > 1):
        if run.state in ("finished", "failed", "stopped", "interrupted"):
            return
        time.sleep(0.2)
    print("kill_worker 0:", run.send("kill_worker", rank=0))


if __name__ == "__main__":
    main()
