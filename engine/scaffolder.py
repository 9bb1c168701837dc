"""Causal scaffolds: read, check, execute, intervene, merge."""

from engine.scaffold.execution import Execution, RuleFailure, execute
from engine.scaffold.grounding import STRUCTURE_VERSION, Grounding, ground
from engine.scaffold.interventions import InterventionReport, intervene
from engine.scaffold.merge import Conflict, Merge, merge_scaffolds
from engine.scaffold.parsing import ParsedScaffold, parse_scaffold, scaffold_from_object
from engine.scaffold.structure import StructureReport, check_structure, plan_agreement, rule_cause_agreement

__all__ = [
    "STRUCTURE_VERSION",
    "Conflict",
    "Execution",
    "Grounding",
    "InterventionReport",
    "Merge",
    "ParsedScaffold",
    "RuleFailure",
    "StructureReport",
    "check_structure",
    "execute",
    "ground",
    "intervene",
    "merge_scaffolds",
    "parse_scaffold",
    "plan_agreement",
    "rule_cause_agreement",
    "scaffold_from_object",
]
