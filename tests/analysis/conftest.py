"""Module trees written out by hand, as recordings without events."""

import pytest

from memstrata.capture.format import schema
from memstrata.capture.format.interning import StringTable
from memstrata.capture.format.plan import layer_kinds
from memstrata.capture.format.recording import Meta, build
from memstrata.viewer.analysis.planner import Planner
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file


class Tree:
    """Collects modules in `named_modules` order: `add(path, class, **parameters)`."""

    def __init__(self):
        self.modules = []
        self.listed = set()

    def add(self, path, cls, listed=False, attributes=None, **parameters):
        self.modules.append((path, cls, parameters, attributes or {}))
        if listed:
            self.listed.add(path)
        return self

    def linear(self, path, width_in, width_out, listed=False):
        return self.add(path, "Linear", listed, weight=(width_out, width_in))

    def recording(self, layer_lists, dtype="float32", **meta):
        strings = StringTable()
        text = strings.intern
        row = {path: i for i, (path, *_) in enumerate(self.modules)}
        parents = [row[path.rpartition(".")[0]] if path else -1 for path, *_ in self.modules]
        classes = [cls for _, cls, _, _ in self.modules]
        modules, parameters, attributes, layers = [], [], [], []
        for i, (path, cls, held, numbers) in enumerate(self.modules):
            modules.append((parents[i], text(path), text(cls), path in self.listed))
            for name, shape in held.items():
                parameters.append((i, text(name), text(",".join(map(str, shape))), text(dtype), 4, True))
            attributes += [(i, text(name), value) for name, value in numbers.items()]
        for number, paths in enumerate(layer_lists):
            kinds = layer_kinds([row[p] for p in paths], classes, parents)
            layers += [(number, i, row[p], text(k)) for i, (p, k) in enumerate(zip(paths, kinds, strict=True))]
        return build(
            Meta(dtype=dtype, **meta),
            strings,
            modules=schema.from_rows(schema.Modules, modules),
            module_parameters=schema.from_rows(schema.ModuleParameters, parameters),
            module_attributes=schema.from_rows(schema.ModuleAttributes, attributes),
            layers=schema.from_rows(schema.Layers, layers),
        )


@pytest.fixture
def tree():
    """An empty module tree."""
    return Tree()


def decoder_layer(tree, path, hidden, mixer, inner, ffn):
    """A pre-norm layer: `mixer` maps projection names to output widths."""
    tree.add(path, "Layer", listed=True)
    tree.add(f"{path}.mixer", "Mixer")
    for name, width in mixer.items():
        tree.linear(f"{path}.mixer.{name}", hidden, width)
    tree.linear(f"{path}.mixer.o_proj", inner, hidden)
    tree.add(f"{path}.mlp", "MLP")
    tree.linear(f"{path}.mlp.gate_proj", hidden, ffn)
    tree.linear(f"{path}.mlp.up_proj", hidden, ffn)
    tree.linear(f"{path}.mlp.down_proj", ffn, hidden)
    tree.add(f"{path}.input_norm", "RMSNorm", weight=(hidden,))
    tree.add(f"{path}.post_norm", "RMSNorm", weight=(hidden,))


@pytest.fixture
def teaching(tree):
    """The teaching model as a module tree."""
    tree.add("", "Model").add("layers", "ModuleList")
    mixer = {"q_proj": 12288, "k_proj": 1024, "v_proj": 1024}
    for i in range(64):
        decoder_layer(tree, f"layers.{i}", 5120, mixer, 6144, 17408)
    paths = [f"layers.{i}" for i in range(64)]
    return tree.recording([paths], dtype="bfloat16", batch=1, sequence=8192, super_block_override=4)


@pytest.fixture
def hybrid(tree):
    """Twelve layers, every fourth with another mixer, float32, 2 x 16 tokens."""
    tree.add("", "Model").add("layers", "ModuleList")
    for i in range(12):
        full = i % 4 == 3
        mixer = {"q_proj": 8, "k_proj": 4, "v_proj": 4} if full else {"q": 8, "k": 8, "v": 8, "decay": 1}
        decoder_layer(tree, f"layers.{i}", 8, mixer, 8, 24)
        if full:
            tree.add(f"layers.{i}.extra", "Identity")
    return tree.recording([[f"layers.{i}" for i in range(12)]], batch=2, sequence=16)


@pytest.fixture
def m8(tree):
    """Eight blocks of Linear-GELU-Linear-GELU, 2048 x 512 float32."""
    tree.add("", "Sequential")
    for i in range(8):
        tree.add(f"{i}", "Sequential", listed=True)
        tree.linear(f"{i}.0", 512, 512, listed=True).add(f"{i}.1", "GELU", listed=True)
        tree.linear(f"{i}.2", 512, 512, listed=True).add(f"{i}.3", "GELU", listed=True)
    return tree.recording([[f"{i}" for i in range(8)]], batch=2048, sequence=1)


@pytest.fixture(scope="module")
def uniform_planner(run_of):
    """Of eight equal blocks, 4 MiB an activation."""
    return Planner(run_of("uniform.mstrata"))


@pytest.fixture(scope="module")
def hybrid_planner(run_of):
    """Of the demo's twelve layers, every fourth with full attention."""
    return Planner(run_of("before.mstrata"))


@pytest.fixture(scope="session")
def run_of(samples):
    """Opens a sample by its file name, once per test run."""
    opened = {}

    def open_sample(name):
        if name not in opened:
            opened[name] = Run(open_file(samples / name), name=name)
        return opened[name]

    return open_sample
