"""Checks the first-order policies of a file, and finds how each would be evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import LimitError, PolicyError
from mtlmon.policy.first_order.terms import (
    aggregates_of,
    free_in,
    quantified,
    terms_of,
)
from mtlmon.policy.predicates.printer import column_text
from mtlmon.relational.atoms import used_atoms
from mtlmon.relational.binding import BindingAnalysis
from mtlmon.relational.expansion import Expansion
from mtlmon.relational.keyed import has_keys, key_of_run, keyed_file
from mtlmon.relational.normal import normal_form
from mtlmon.relational.nothing import is_total
from mtlmon.relational.outside import Outside
from mtlmon.relational.preparation import readable
from mtlmon.relational.recursion import recursion_findings, recursive_lets
from mtlmon.relational.scopes import Finding, future_findings, scope_findings
from mtlmon.relational.types import Facts
from mtlmon.relational.typing import find_typed
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.printer import written_name
from mtlmon.syntax.report import formula_error, shorten, visible
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from mtlmon.errors import FormulaError
    from mtlmon.policy import Policy, PolicyFile
    from mtlmon.policy.predicates.environment import Relation as LookedUp
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.relational.binding import Binding, Definition, Unbound
    from mtlmon.relational.typing import TypedFile, TypedPolicy

_SHOWN = 80


class PolicyAnalysis(NamedTuple):
    """How a first-order policy is evaluated.

    Attributes:
        policy: the policy.
        body: its formula without leading FORALLs.
        reported: the variables whose values are reported, in order.
        kinds: the kind of the values of each of them.
        binding: how the valuations are found.
    """

    policy: Policy
    body: Formula
    reported: tuple[str, ...]
    kinds: dict[str, Kind]
    binding: Binding


class Recursion(NamedTuple):
    """A let that uses itself, so that its rows are found at each time-point.

    Attributes:
        parameters: its parameters.
        formula: its formula.
        kinds: the kinds of the parameters.
        binding: how its rows are found.
    """

    parameters: tuple[str, ...]
    formula: Formula
    kinds: tuple[Kind, ...]
    binding: Binding


class Analysis(NamedTuple):
    """What is known of the first-order policies of a file before a log is read.

    Policies in which the arguments of an atom have other types have an atom of their own, which
    `mtlmon.syntax.printer.name_of_types` names, and lets likewise.

    Attributes:
        policies: those that are valid, in the order of the file.
        relations: the kinds of the arguments of each atom by name.
        lets: the other lets with parameters by name, which formulas stand for.
        errors: in the order of their places.
        recursions: the lets that use themselves, and that policies use, by name.
    """

    policies: tuple[PolicyAnalysis, ...]
    relations: dict[str, tuple[Kind, ...]]
    lets: dict[str, Definition]
    errors: tuple[FormulaError, ...]
    recursions: dict[str, Recursion]

    @property
    def predicates(self) -> dict[str, tuple[Kind, ...]]:
        """The kinds of the arguments of all that has rows at time-points."""
        return self.relations | {name: one.kinds for name, one in self.recursions.items()}


def analyse(
    file: PolicyFile,
    schema: pa.Schema | None = None,
    looked_up: Mapping[str, LookedUp] | None = None,
    *,
    has_all_columns: bool = False,
) -> Analysis:
    """Check the first-order policies of a file.

    Args:
        file: a policy file that has been read without errors.
        schema: the columns of the table that policies need, or None if they are not known yet.
        looked_up: the relations in which atoms look values up, by name; None if they are not known.
        has_all_columns: whether `schema` has all columns of the table, so that atoms that no policy
            uses can be checked, too.
    """
    first_order = [one for one in file.policies if one.is_first_order]
    if not first_order and not file.relations and not file.parameters:
        return Analysis((), {}, {}, (), {})
    analyser = _Analyser(file)
    for name, parameters in file.parameters.items():
        if name == written_name(name):
            analyser.check_scopes(file.lets[name], parameters, f"let {name}")
    analyser.check_recursion()
    valid = [policy for policy in first_order if analyser.has_valid_scopes(policy)]
    checked = file.relations if has_all_columns else used_atoms(file)
    typed = find_typed(Facts(file, schema, checked, looked_up), valid)
    lets = {name: one for name, one in typed.lets.items() if name not in typed.recursive}
    recursions = analyser.recursions(typed, lets)
    policies = [
        found for one in typed.policies if (found := analyser.policy(one, lets)) is not None
    ]
    # what several policies use has the errors of its place for each of them
    every = [*analyser.errors, *typed.errors]
    errors = list({(one.line, one.column, str(one)): one for one in every}.values())
    errors.sort(key=lambda error: (error.line, error.column))
    return Analysis(tuple(policies), typed.relations, lets, tuple(errors), recursions)


def valid_analysis(
    file: PolicyFile,
    schema: pa.Schema | None = None,
    looked_up: Mapping[str, LookedUp] | None = None,
) -> Analysis:
    """Check the first-order policies of a file, as `analyse` does, and refuse what is wrong.

    Args:
        file: a policy file that has been read without errors.
        schema: the columns of the table, or None for a text log or before they are known.
        looked_up: as for `analyse`.

    Raises:
        FormulaError: a policy cannot be evaluated.
    """
    analysis = analyse(file, schema, looked_up)
    if analysis.errors:
        raise analysis.errors[0]
    return analysis


def valid_keyed_file(file: PolicyFile, key: Sequence[str] = ()) -> PolicyFile:
    """Return what `keyed_file` does, and refuse what is wrong with the policies as written.

    Raises:
        FormulaError: a policy cannot be evaluated.
    """
    if not has_keys(file, key):
        return file
    # errors in the words of the file come first
    valid_analysis(file)
    found = keyed_file(file, key)
    valid_analysis(found)
    return found


def reported_variables(formula: Formula) -> tuple[Formula, tuple[str, ...]]:
    """Return a formula without its leading FORALLs, and their variables before other free ones."""
    names: list[str] = []
    while formula.operator is ops.FORALL:
        names += quantified(formula)
        formula = formula.operands[0]
    free = free_in(formula)
    # a variable that does not occur is not reported
    return formula, tuple(dict.fromkeys([*(name for name in names if name in free), *free]))


def parts_of(policy: Policy, formula: Formula) -> tuple[Formula, tuple[str, ...]]:
    """Return the part of a policy that is evaluated, and the variables that are reported.

    Args:
        policy: the policy.
        formula: its formula, or one with other names of atoms and lets.
    """
    body, names = formula, free_in(formula)
    if not policy.is_find:
        body, names = reported_variables(formula)
    return body, tuple(dict.fromkeys([*policy.key_variables, *names]))


def title_of(policy: Policy) -> str:
    """How errors call a policy."""
    if policy.is_find:
        return "the formula" if policy.name is None else f"find {policy.name}"
    return "the policy" if policy.name is None else f"policy {policy.name}"


class _Analyser:
    def __init__(self, file: PolicyFile) -> None:
        self.file = file
        self.errors: list[FormulaError] = []

    def has_valid_scopes(self, policy: Policy) -> bool:
        """Check the scopes of variables, and how far ahead operators look."""
        before, title = len(self.errors), title_of(policy)
        self.check_scopes(policy.formula, free_in(policy.formula), title)
        body, reported = parts_of(policy, policy.formula)
        for finding in future_findings(body, is_closed=not reported, is_find=policy.is_find):
            self.report(finding, title)
        return len(self.errors) == before

    def policy(self, typed: TypedPolicy, lets: Mapping[str, Definition]) -> PolicyAnalysis | None:
        """Find how a policy is evaluated; return None if it cannot be."""
        policy = typed.policy
        bindings = BindingAnalysis(lets, typed.mixed)
        body, reported = parts_of(policy, typed.formula)
        title = title_of(policy)
        binding = self.binding(body, reported, bindings, title, negated=not policy.is_find)
        if binding is None:
            return None
        own = {name: typed.variables[name] for name in reported}
        return PolicyAnalysis(policy, body, reported, own, binding)

    def recursions(self, typed: TypedFile, lets: Mapping[str, Definition]) -> dict[str, Recursion]:
        """Find how the rows of the lets that use themselves are found, as far as they can be."""
        mixed = frozenset().union(*(one.mixed for one in typed.policies))
        bindings = BindingAnalysis(lets, mixed)
        found: dict[str, Recursion] = {}
        for name, kinds in typed.recursive.items():
            parameters, formula = typed.lets[name]
            title = f"let {written_name(name)}"
            for finding in future_findings(formula, is_closed=False):
                self.report(finding, title)
            binding = self.binding(formula, parameters, bindings, title)
            if binding is not None:
                found[name] = Recursion(parameters, formula, kinds, binding)
        return found

    def binding(
        self,
        body: Formula,
        reported: tuple[str, ...],
        bindings: BindingAnalysis,
        title: str,
        *,
        negated: bool = False,
    ) -> Binding | None:
        """Find how the valuations of a formula, or of its negation, are found.

        Returns:
            None if they cannot be, which is reported.
        """
        binding = bindings.analyse(body, reported, negated=negated)
        if binding.error is None:
            return binding
        turned = self.from_outside(body, reported, bindings, negated=negated)
        if turned is None or turned.error is not None:
            operator = _remembering(turned or binding)
            self.report(self.unbound(binding.error, set(reported), operator), title)
            return None
        return turned

    def from_outside(
        self,
        body: Formula,
        reported: tuple[str, ...],
        bindings: BindingAnalysis,
        *,
        negated: bool,
    ) -> Binding | None:
        """Find how a formula is evaluated if operands get from outside what they do not bind.

        Returns:
            None if it nests too deeply.
        """
        try:
            expanded = Expansion(bindings.lets).expanded(body) if bindings.lets else body
        except LimitError:
            return None
        written = normal_form(expanded, negated=negated)
        return bindings.of_normal(Outside(bindings).turned(written), reported)

    def check_recursion(self) -> None:
        """Check that lets use themselves at earlier time-points only."""
        lets = {name: self.file.lets[name] for name in self.file.parameters}
        recursive = recursive_lets(lets)
        for name in recursive:
            if name == written_name(name):
                for finding in recursion_findings(name, lets, recursive):
                    self.report(finding, f"let {name}")

    def check_scopes(self, formula: Formula, names: tuple[str, ...], title: str) -> None:
        for finding in scope_findings(formula, names):
            self.report(finding, title)

    def unbound(self, error: Unbound, reported: set[str], operator: str | None) -> Finding:
        """Say which variable of a formula lacks values, and how to mend that.

        Args:
            error: what is wrong.
            reported: the variables that the policy reports.
            operator: the word of the operator that cannot get values from outside, if one cannot.
        """
        variable, formula = error.variable, error.formula
        name = variable.partition(" ")[0]
        written = shorten(visible(readable(formula)), _SHOWN)
        if error.reason == "sides":
            message = f"one side of OR binds '{name}', but not '{written}'"
            return Finding(formula.span, message, f"bind {name} on both sides, or around the OR")
        message = f"nothing says which values '{name}' may take in '{written}'"
        example = f"{self.example(name)} AND {written}"
        hint = f"bind {name} first, as in {example}"
        negated = formula.operands[0] if formula.operator is ops.NOT else None
        if error.is_quantified and negated is not None:
            hint += f"; or did you mean NOT EXISTS {name}. {readable(negated)}?"
        elif (
            variable in reported and negated is not None and negated.operator is not ops.COMPARISON
        ):
            hint += f"; or did you mean EXISTS {name}. {readable(negated)}?"
        aggregate = next((one for one in aggregates_of(formula) if is_total(one)), None)
        if aggregate is not None and variable in (aggregate.aggregate.by or ()):
            word = aggregate.aggregate.word
            hint = f"{word} of nothing is 0, so it can hold for any {name} without rows: bind "
            hint += f"{name} by another part, as in {example}"
        if operator is not None:
            hint += f"; what {operator} remembers is found by itself, so bind {name} inside it"
        if name in self.file.streams:
            hint = f"{name} is a variable here: a stream cannot be used beside variables; {hint}"
        if name in self.columns():
            hint = f"the column is row.{column_text(name)}; {hint}"
        return Finding(formula.span, message, hint)

    def example(self, name: str) -> str:
        """A predicate that would bind a variable."""
        for relation in self.file.relations.values():
            if len(relation.arguments) == 1 and relation.is_declared:
                return f"{written_name(relation.name)}({name})"
        return f"p({name})"

    def columns(self) -> set[str]:
        """The columns that the file names."""
        from mtlmon.policy.predicates.expression import columns

        named = [one.expression for one in self.file.atoms.values()]
        for relation in self.file.relations.values():
            named += [] if relation.condition is None else [relation.condition]
            named += [one.expression for one in relation.arguments if one.expression is not None]
        return set(columns(*named))

    def report(self, finding: Finding, title: str) -> None:
        start = 0 if finding.span is None else finding.span.start
        message = f"{title}: {finding.message}"
        self.errors.append(
            formula_error(
                self.file.text,
                start,
                message,
                source=self.file.source,
                hint=finding.hint,
                kind=PolicyError,
            )
        )


def _remembering(binding: Binding) -> str | None:
    """The word of the innermost temporal operator around a part that lacks a variable of it."""
    error = binding.error
    if error is None or error.is_quantified:
        return None
    for node in postorder(binding.formula):
        if node.operator.is_temporal and any(part is error.formula for part in postorder(node)):
            is_free = error.variable in free_in(node)
            return node.operator.word if is_free else None
    return None


def warnings_of(analysis: PolicyAnalysis) -> list[str]:
    """Remarks on what may be meant differently: equal rows of a window are one in an aggregate."""
    remarks: list[str] = []
    for node in postorder(analysis.body):
        for part in postorder(*terms_of(node)):
            if not hasattr(part.value, "formula"):
                continue
            operand = node.operands[part.aggregate.formula]
            inside = {one.name for one in postorder(operand)}
            remembers = operand.operator in (ops.ONCE, ops.SINCE, ops.EVENTUALLY, ops.UNTIL)
            if remembers and not inside & {"point", "time"}:
                remarks.append(
                    f"{part.aggregate.word} counts equal rows of a window once: add point(i) to "
                    f"'{shorten(visible(str(operand)), _SHOWN)}' to tell them apart"
                )
    return remarks


__all__ = [
    "Analysis",
    "PolicyAnalysis",
    "Recursion",
    "analyse",
    "reported_variables",
    "valid_analysis",
    "valid_keyed_file",
    "warnings_of",
]


def of_run(file: PolicyFile, key: str | Sequence[str] | None) -> PolicyFile:
    """Return the policies of a run with this key, which those with variables have, too.

    Raises:
        FormulaError: a policy cannot be evaluated.
    """
    if key is not None:
        file = file.without_keys_of_files()
    return valid_keyed_file(file, key_of_run(file, key))
