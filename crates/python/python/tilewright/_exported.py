"""Programs of ``torch.export``, compiled."""

import torch
from torch.export.graph_signature import InputKind, OutputKind

from .torch import Report, compiled_graph, decompositions, kept_reports


class CompiledProgram:
    """A compiled ``torch.export.ExportedProgram``; :func:`tilewright.compile` makes it, and calling
    it runs it.

    It takes what the exported module takes, tensors on the CPU in the same structure, and gives what
    that gives. Sizes that the program has as dynamic may differ from call to call. Buffers that the
    module changes are changed in the program's own state. ``report`` says what became of the graph.
    """

    def __init__(self, program, options):
        self._program = program.run_decompositions(_table())
        signature = self._program.graph_signature
        changed = set(signature.buffers_to_mutate.values())
        static = {
            number
            for number, spec in enumerate(signature.input_specs)
            if spec.kind != InputKind.USER_INPUT and spec.target not in changed
        }
        self.report = Report()
        module = self._program.graph_module
        _without_checks(module)
        self._run = compiled_graph(module, frozenset(static), options, self.report)
        kept_reports().append(self.report)

    def __repr__(self):
        return f"<tilewright.CompiledProgram, {self.report!r}>"

    def _given(self, values):
        """The values of all placeholders."""
        values, state = iter(values), self._program.state_dict
        given = []
        for spec in self._program.graph_signature.input_specs:
            if spec.kind == InputKind.USER_INPUT:
                given.append(next(values))
            elif spec.target in state:
                given.append(state[spec.target].detach())
            else:
                given.append(self._program.constants[spec.target])
        return given

    def __call__(self, *values, **named):
        """Runs the program; structures of tensors in and out are those of the exported module."""
        flat, _ = self._program._get_flat_args_with_check(values, named)
        flat = list(flat)
        with torch.no_grad():
            results = self._run(self._given(flat))
            wanted = []
            for spec, value in zip(self._program.graph_signature.output_specs, results):
                if spec.kind == OutputKind.USER_OUTPUT:
                    wanted.append(value)
                elif spec.kind == OutputKind.BUFFER_MUTATION:
                    self._program.state_dict[spec.target].copy_(value)
                elif spec.kind == OutputKind.USER_INPUT_MUTATION:
                    names = self._program.graph_signature.user_inputs
                    flat[names.index(spec.target)].copy_(value)
                else:
                    raise NotImplementedError(f"an output of kind {spec.kind.name}")
        return torch.utils._pytree.tree_unflatten(wanted, self._program.call_spec.out_spec)


def _table():
    """Decompositions of all that the compiler lacks, operators that are compositions included."""
    table = torch.export.default_decompositions()
    for key, decomposition in decompositions().items():
        table[key] = decomposition
    from .torch import operators

    for key in [key for key in table if str(key) in operators()]:
        del table[key]
    return table


def _without_checks(module):
    """Takes out nodes that say again what the values' types say."""
    for node in list(module.graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default:
            module.graph.erase_node(node)
    module.recompile()
