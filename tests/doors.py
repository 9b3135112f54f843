"""What tests reach of the inside of the package, so that a move edits this file alone.

A name is imported when a test asks for it: some modules need packages that not all tests have.
"""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING


@cache
def _places() -> dict[str, tuple[str, str]]:
    """For each name, the module that has it, and its name there."""
    found = {}
    for node in ast.walk(ast.parse(Path(__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                found[alias.asname or alias.name] = node.module, alias.name
    return found


def __getattr__(name: str) -> object:
    if name not in _places():
        raise AttributeError(f"tests/doors.py has no {name}")
    place, own = _places()[name]
    module = import_module(place)
    found = getattr(module, own) if hasattr(module, own) else import_module(f"{place}.{own}")
    globals()[name] = found
    return found


if TYPE_CHECKING:
    from mtlmon._relational_history import AnswerChanges
    from mtlmon.analysis import (
        desugar,
        future_reach,
        past_reach,
        skewed_count,
        subformula_count,
    )
    from mtlmon.analysis.antecedent import Vacuous, antecedent_of
    from mtlmon.analysis.describe import describe
    from mtlmon.analysis.desugar import KERNEL
    from mtlmon.analysis.reach import decision_delay
    from mtlmon.analysis.state import state_bound
    from mtlmon.arrays.canonical import canonical_number, canonical_texts
    from mtlmon.arrays.native import EventColumns, KeyTable, TextCells, texts_of_views
    from mtlmon.arrays.ordering import order_of
    from mtlmon.changelog.loops import ChangelogLoop, LatestVerdicts, ResolvedChanges
    from mtlmon.changelog.records import LatestRecords
    from mtlmon.checking import bounds as checking_bounds
    from mtlmon.checking import feeding as checking_feeding
    from mtlmon.checking import idle_keys as checking_idle_keys
    from mtlmon.checking import late_bounds as checking_late_bounds
    from mtlmon.checking import late_messages as checking_late_messages
    from mtlmon.checking import late_origins as checking_late_origins
    from mtlmon.checking import late_partitions as checking_late_partitions
    from mtlmon.checking import log_check as checking_log_check
    from mtlmon.checking import text_logs as checking_text_logs
    from mtlmon.checking import tick_turns as checking_tick_turns
    from mtlmon.checking.arrived_rows import ArrivedRows, unnamed_rows
    from mtlmon.checking.assumptions import AssumptionWatch
    from mtlmon.checking.bounds import Bound, FileBounds, bounds_of, guessed_schema, monitors_kept
    from mtlmon.checking.changes import KINDS_OF, ChangedAnswers, ChangeLines
    from mtlmon.checking.changes import Bound as FinalBound
    from mtlmon.checking.counted_lines import CountedLines
    from mtlmon.checking.history_check import Bounds, HistoryCheck
    from mtlmon.checking.last_rows import LastRow, LastRows
    from mtlmon.checking.late_checks import LateChecks
    from mtlmon.checking.late_events import LateEvents
    from mtlmon.checking.late_first import (
        FirstAnswer,
        FirstChanges,
        FirstViolation,
        LiveViolations,
    )
    from mtlmon.checking.log_check import LogCheck
    from mtlmon.checking.outputs import JsonLinesOutput, TextOutput, unique_key_columns
    from mtlmon.checking.partitions import Partitions, TraceKeys, partitions_of
    from mtlmon.checking.point_rows import PointRows
    from mtlmon.checking.policy_facts import PolicyFacts
    from mtlmon.checking.row_files import RowFile, RowPlace
    from mtlmon.checking.row_tracking import RowTracker
    from mtlmon.checking.shown import Messages, shown_names
    from mtlmon.checking.sources import EventBatch, Origins
    from mtlmon.checking.text_logs import TextBatch
    from mtlmon.checking.time_points import ChosenPoints
    from mtlmon.cli import command as cli_command
    from mtlmon.cli import completion as cli_completion
    from mtlmon.cli import main
    from mtlmon.cli import serving_run as cli_serving_run
    from mtlmon.cli import serving_work as cli_serving_work
    from mtlmon.cli import streams as cli_streams
    from mtlmon.cli.arguments import Arguments, make_parser, parse_arguments, spec_of
    from mtlmon.cli.command import SUBCOMMANDS
    from mtlmon.cli.command_line import options_of, subcommands
    from mtlmon.cli.manual import manual
    from mtlmon.cli.plain_arguments import plain_arguments
    from mtlmon.cli.query import make_parser as make_query_parser
    from mtlmon.cli.serving import parse_arguments as parse_serve_arguments
    from mtlmon.cli.serving import worker_command
    from mtlmon.cli.serving_work import problem_of
    from mtlmon.cli.short_help import SHORT_HELP
    from mtlmon.cutting import Plan as CuttingPlan
    from mtlmon.cutting import SeekingPass, VerdictPass, make_plan, verdict_passes
    from mtlmon.cutting.carries import Finding
    from mtlmon.cutting.masks import MaskedProgram
    from mtlmon.drive.native import (
        PolicyLines,
        PolicyMonitors,
        RowPlaces,
        SuccessiveMonitor,
        TextEvents,
        TextMonitor,
        TextResolver,
        VerdictRows,
        feed_columns,
        policies_snapshot,
        policy_label,
        restore_policies,
    )
    from mtlmon.engine import choice as engine_choice
    from mtlmon.engine.choice import MOST_VARIABLES, EngineChoice, choose_engine, has_time_bound
    from mtlmon.engine.compile import OPERATIONS, compile_formulas
    from mtlmon.engine.expressions import bdd as expressions_bdd
    from mtlmon.engine.memory_limit import CATEGORIES, formula_bytes, memory_size
    from mtlmon.engine.native import (
        MemoryLimit,
        SavedState,
        clock_at_end,
        is_end_of_time,
        read_atoms,
    )
    from mtlmon.engine.pending import PendingTimePoint
    from mtlmon.engine.pending import decision_delay as pending_delay
    from mtlmon.errors import TickError
    from mtlmon.explanation.checker import check_step
    from mtlmon.explanation.prover import prove
    from mtlmon.explanation.windows import WINDOW, Refusal, Windows, refusals, witnesses
    from mtlmon.history.changes import DELETED, INSERTED, UPDATED, WITHDRAWN, change_type
    from mtlmon.history.changes import Changes as ChangesChanges
    from mtlmon.history.chunked import ChunkedRows
    from mtlmon.history.following import LeadingHistory
    from mtlmon.history.keys import KeyNumbers
    from mtlmon.history.operations import Corrections, operation_codes
    from mtlmon.monpoly.monitoring import plan_of
    from mtlmon.monpoly.native import VerdictLines
    from mtlmon.monpoly.plain import PlainLines
    from mtlmon.monpoly.points import PointFeeder, PointReader
    from mtlmon.policy.definitions import Assumption, Clock
    from mtlmon.policy.first_order.terms import (
        aggregates_of,
        comparison,
        free_variables,
        predicate,
        quantified,
        terms_of,
        variables_of,
    )
    from mtlmon.policy.formula_hints import _FORMS as FORMS
    from mtlmon.policy.messages import value_text
    from mtlmon.policy.needs import needs_of
    from mtlmon.policy.nulls import Nulls
    from mtlmon.policy.past_formulas import as_expression, future_operator
    from mtlmon.policy.predicates import kinds as predicates_kinds
    from mtlmon.policy.predicates import numbers as predicates_numbers
    from mtlmon.policy.predicates import operators as predicates_operators
    from mtlmon.policy.predicates import own_aggregates as predicates_own_aggregates
    from mtlmon.policy.predicates import own_functions as predicates_own_functions
    from mtlmon.policy.predicates import own_machines as predicates_own_machines
    from mtlmon.policy.predicates.checking import Checked, check
    from mtlmon.policy.predicates.compiling import CompiledExpressions
    from mtlmon.policy.predicates.conversions import FUNCTIONS as CONVERSION_FUNCTIONS
    from mtlmon.policy.predicates.conversions import text_of_float
    from mtlmon.policy.predicates.environment import NOTHING
    from mtlmon.policy.predicates.expression import (
        Aggregate,
        ComputedColumn,
        Constant,
        Expression,
        LookedUp,
        Offset,
        Over,
        Window,
        read_as,
    )
    from mtlmon.policy.predicates.inference import find_kinds
    from mtlmon.policy.predicates.instants import read_instant
    from mtlmon.policy.predicates.keywords import CLAUSES, KEYWORDS
    from mtlmon.policy.predicates.kinds import FLOAT, INTEGER, TEXT, Kind
    from mtlmon.policy.predicates.operators import AGGREGATES, CONVERSIONS, FUNCTIONS
    from mtlmon.policy.predicates.operators import Operator as TermOperator
    from mtlmon.policy.predicates.parser import parse_comparison, parse_expression, parse_prefix
    from mtlmon.policy.predicates.patterns import PatternError, compile_pattern
    from mtlmon.policy.predicates.printer import column_text
    from mtlmon.policy.predicates.printer import to_text as term_text
    from mtlmon.policy.predicates.resolving import Scope, resolve
    from mtlmon.policy.predicates.time_points import Changes, Waiting, When, when_in_units
    from mtlmon.policy.remarks import remarks
    from mtlmon.policy.types import errors_with_columns
    from mtlmon.policy.validity import building as validity_building
    from mtlmon.policy.validity.declared import Combine, Group, Rows, TableOf, Where
    from mtlmon.policy.validity.reading import STEPS
    from mtlmon.policy.written import written_formula, written_policies
    from mtlmon.relational.analysis import valid_analysis
    from mtlmon.relational.binding import Binding, BindingAnalysis, Definition
    from mtlmon.relational.cells import Value, from_cell, number_texts, to_cell
    from mtlmon.relational.correcting import chunks as correcting_chunks
    from mtlmon.relational.correcting.points import GONE, NEW, PointHistory
    from mtlmon.relational.delays import decision_delays
    from mtlmon.relational.input.native import ColumnRows, RowScanner
    from mtlmon.relational.key_names import KeyNames
    from mtlmon.relational.keyed import HERE, keyed_file
    from mtlmon.relational.monitor import atom_numbers, engine_of, point_rows
    from mtlmon.relational.native import (
        STATE_KINDS,
        AnswerBlock,
        PointBlock,
        RelationalEngine,
        Router,
        SplitBlock,
        Splitter,
        Timeline,
        choose_points,
        hash_of_cell,
        join_points,
        points_as_bytes,
        points_of_bytes,
    )
    from mtlmon.relational.normal import normal_form
    from mtlmon.relational.output.native import AnswerLines, FirstAnswers
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.planning import plan
    from mtlmon.relational.planning import planner as planning_planner
    from mtlmon.relational.reasons import Evidence, Explainer, Region, Violation, explanation_text
    from mtlmon.relational.reasons import Finding as ReasonFinding
    from mtlmon.relational.reasons.words import region_words
    from mtlmon.relational.running import RelationalRun
    from mtlmon.relational.scopes import scope_findings
    from mtlmon.relational.slicing.engine import SlicedEngine
    from mtlmon.relational.slicing.routing import routing_of
    from mtlmon.relational.slicing.running import BlockRunner
    from mtlmon.relational.slicing.shares import Load as SliceLoad
    from mtlmon.relational.slicing.shares import best_shares, expected_load
    from mtlmon.relations import algebra as relations_algebra
    from mtlmon.relations import joining as relations_joining
    from mtlmon.relations import revised as relations_revised
    from mtlmon.relations import rules as relations_rules
    from mtlmon.relations.algebra import Node, Source, nodes
    from mtlmon.relations.changing import ChangeTimes, changes_of
    from mtlmon.relations.declared import (
        ROWS,
        Plans,
        columns_of_rows,
        columns_to_read,
        declared_tables,
        table_name,
        used_relations,
    )
    from mtlmon.relations.evaluation import FoundPlan, coalesced_plan, evaluate, evaluate_all
    from mtlmon.relations.folding import Folds
    from mtlmon.relations.incremental import Query
    from mtlmon.relations.join_order import Statistics, joins_by_size
    from mtlmon.relations.looking_up import KnownRelation
    from mtlmon.relations.lookup import LookUp
    from mtlmon.relations.lookup import has_overlaps as lookup_has_overlaps
    from mtlmon.relations.multiplicity import coalesced, multiplied, without_common
    from mtlmon.relations.native import (
        Codes,
        Contacts,
        CountAggregate,
        DistinctAggregate,
        Groups,
        LeastAggregate,
        Multiplicities,
        Numbering,
        Pairs,
        QuantileAggregate,
        Segments,
        SumAggregate,
        has_overlaps,
    )
    from mtlmon.relations.native import OwnAggregate as RelationOwnAggregate
    from mtlmon.relations.native import Timeline as RelationTimeline
    from mtlmon.relations.of_rows import LogRelation, ReadRows, RowRelation
    from mtlmon.relations.partitioning import partitioning_columns
    from mtlmon.relations.records import NO_END, Records, records_of, table_columns, table_of
    from mtlmon.relations.revised import RevisedRelation, RevisedRelations
    from mtlmon.relations.rowwise import united
    from mtlmon.relations.spans import SpannedChanges, Spans
    from mtlmon.relations.standing import Revision, Revisions, StandingQuery
    from mtlmon.relations.typing import Types, schema_of
    from mtlmon.reporting.clock import Clock as ReportClock
    from mtlmon.reporting.clock import counts_from_1970
    from mtlmon.reporting.histogram import TimeHistogram, widths
    from mtlmon.reporting.plot import PlottedStream
    from mtlmon.run import followed_file
    from mtlmon.run import keywords as run_keywords
    from mtlmon.run import preparing as run_preparing
    from mtlmon.run import read_parts as run_read_parts
    from mtlmon.run.answers import Answer as RunAnswer
    from mtlmon.run.checked_tables import TableCheck, check_tables
    from mtlmon.run.checkpoint import DIGEST_BYTES, MAGIC, CheckpointFile, LogMark
    from mtlmon.run.context import context_lines
    from mtlmon.run.failure import RunError
    from mtlmon.run.files import LogFile, open_log
    from mtlmon.run.followed_file import Follower
    from mtlmon.run.keywords import CheckOptions, LiveOptions, LogOptions, QueryOptions, in_python
    from mtlmon.run.monpoly_logs import MonPolyEvents
    from mtlmon.run.pump import ALONE_BYTES, WORTH_BYTES, MonitoredText, TextWork
    from mtlmon.run.read_parts import ReadPart
    from mtlmon.run.recognition import format_of, is_enough
    from mtlmon.run.snapshot_parts import JUDGES, POLICIES
    from mtlmon.run.snapshot_parts import split_parts as split_kinds
    from mtlmon.run.spec import PLACES, RunSpec
    from mtlmon.run.text_checkpoints import CheckpointedText
    from mtlmon.serving import (
        Findings,
        Playground,
        PolicyFindings,
        Problem,
        Serving,
        StreamFindings,
        Verdict,
        Workers,
        exported_page,
        outcome_of,
        problems_of,
        result_of,
    )
    from mtlmon.serving.examples import EXAMPLES, Example
    from mtlmon.serving.fragments import plot_of, reasons_of
    from mtlmon.serving.help import help_of_operators
    from mtlmon.serving.page import MOST_TEXT_BYTES
    from mtlmon.serving.plot import plot
    from mtlmon.serving.server import MOST_BYTES
    from mtlmon.serving.workers import TooLong, WorkerFailed
    from mtlmon.spark.batch.files import _shares as shares
    from mtlmon.spark.batch.one_trace import _divided as divided
    from mtlmon.spark.batch.one_trace import ranges_of
    from mtlmon.spark.batch.ranges import RangeReader
    from mtlmon.spark.batch.relations import prepared_relations, rows_of_slices
    from mtlmon.spark.common.atom_rows import ATOM, END, MARK, TIME, AtomRows, relation_source
    from mtlmon.spark.common.events import Events, EventSource, check_schema, event_source
    from mtlmon.spark.common.kept_rows import KeptRows
    from mtlmon.spark.common.monitoring import OrderedRows
    from mtlmon.spark.common.policies import (
        CompiledPolicy,
        Policies,
        compile_policies,
        relational_file,
    )
    from mtlmon.spark.common.shared_bytes import SharedBytes
    from mtlmon.spark.common.slice_monitors import SLICE, SlicedRows, SlicePlan, SliceSource
    from mtlmon.spark.common.ties import TieFinder
    from mtlmon.spark.common.trace_monitors import EndTime
    from mtlmon.spark.streaming import journal as streaming_journal
    from mtlmon.spark.streaming import processor as streaming_processor
    from mtlmon.spark.streaming import slice_checkpoints as streaming_slice_checkpoints
    from mtlmon.spark.streaming import slice_corrections as streaming_slice_corrections
    from mtlmon.spark.streaming import slice_host as streaming_slice_host
    from mtlmon.spark.streaming.bucket_records import BucketRecords
    from mtlmon.spark.streaming.bucket_state import Answers, BucketMonitors
    from mtlmon.spark.streaming.entries import Entry
    from mtlmon.spark.streaming.event_clock import LARGEST_MILLISECOND, EventClock
    from mtlmon.spark.streaming.event_records import (
        EventRecords,
        order_integers,
        order_type_trouble,
    )
    from mtlmon.spark.streaming.event_records import Waiting as WaitingRecords
    from mtlmon.spark.streaming.exchange import (
        EVENTS,
        LATEST,
        PLACE,
        RECORDS,
        TASK,
        Unpack,
        packed_rows,
        unpacked_rows,
    )
    from mtlmon.spark.streaming.journal import ENTRY_COST, Head, Holding, Journal
    from mtlmon.spark.streaming.key_streams import KeyStreams
    from mtlmon.spark.streaming.live_bucket import LiveBucket
    from mtlmon.spark.streaming.nodes import Host, Machine, Sent, Visit
    from mtlmon.spark.streaming.packing import PackRows, key_types
    from mtlmon.spark.streaming.processor import NodeProcessor
    from mtlmon.spark.streaming.queries import stream_columns
    from mtlmon.spark.streaming.relation_records import RelationRecords
    from mtlmon.spark.streaming.relation_state import RelationHost
    from mtlmon.spark.streaming.row_relations import PackRelationRows, relations_of_rows
    from mtlmon.spark.streaming.settings import NO_SETTINGS, check_settings, stream_settings
    from mtlmon.spark.streaming.shared_monitors import SharedMonitors
    from mtlmon.spark.streaming.slice_checkpoints import checkpoint_of
    from mtlmon.spark.streaming.slice_host import Moved, SliceHost
    from mtlmon.spark.streaming.slice_moving import split_copies
    from mtlmon.spark.streaming.slice_records import (
        SliceSettings,
        check_state,
        read_journal,
    )
    from mtlmon.spark.streaming.slice_rows import FIRST, LATE, PackSlices, result_schema
    from mtlmon.spark.streaming.slice_state import LiveSlice
    from mtlmon.streams import atoms as streams_atoms
    from mtlmon.streams import bounds as streams_bounds
    from mtlmon.streams import cells as streams_cells
    from mtlmon.streams import instances as streams_instances
    from mtlmon.streams import kernels as streams_kernels
    from mtlmon.streams import late_computing as streams_late_computing
    from mtlmon.streams import native as streams_native
    from mtlmon.streams import program as streams_program
    from mtlmon.streams.atoms import StreamAtoms, TickAtoms, streams_of
    from mtlmon.streams.bounds import LARGEST_BATCH, TEXT_BYTES, Kept, Load, kept_by, key_bytes
    from mtlmon.streams.change_ticks import TraceChanges
    from mtlmon.streams.declarations import Stream
    from mtlmon.streams.late_ticks import Queue, TickChanges, TickRows
    from mtlmon.streams.named_rows import NO_NAMES, Names
    from mtlmon.streams.named_rows import Rows as NamedRows
    from mtlmon.streams.own_machines import MachineStates
    from mtlmon.streams.points import Points
    from mtlmon.streams.program import StreamProgram
    from mtlmon.streams.successive import SuccessiveStreams
    from mtlmon.streams.ticking import Ticks
    from mtlmon.support import option_names as support_option_names
    from mtlmon.support import other_words as support_other_words
    from mtlmon.support.frozen import Frozen
    from mtlmon.support.inputs import Input
    from mtlmon.support.option_names import COMMAND, PYTHON
    from mtlmon.support.ready_patterns import READY
    from mtlmon.support.refusals import REFUSALS
    from mtlmon.support.severities import SEVERITIES
    from mtlmon.support.snapshot_parts import (
        joined_parts,
        sealed,
        sized,
        split_parts,
        take_sized,
        unsealed,
    )
    from mtlmon.syntax import operators as syntax_operators
    from mtlmon.syntax.bounds import LATER, UNITS
    from mtlmon.syntax.conditions import written_with_conditions
    from mtlmon.syntax.durations import Duration, DurationInterval, length_text
    from mtlmon.syntax.formula import Span, make
    from mtlmon.syntax.interval import MAXIMUM_BOUND, Interval
    from mtlmon.syntax.joined_text import JoinedText, line_text, source_at
    from mtlmon.syntax.operators import BY_SPELLING, Operator
    from mtlmon.syntax.printer import key_width, to_text, written_name
    from mtlmon.syntax.report import escaped
    from mtlmon.syntax.rewrite import substitute
    from mtlmon.syntax.traversal import number, postorder
    from mtlmon.tables import arrivals as tables_arrivals
    from mtlmon.tables import events as tables_events
    from mtlmon.tables import sorting as tables_sorting
    from mtlmon.tables.change_tables import CHANGE_COLUMNS, ChangeTable
    from mtlmon.tables.columns.arrow_text import shown_value
    from mtlmon.tables.columns.keys import NO_NUMBER, find_rows, number_rows
    from mtlmon.tables.columns.letters import LetterReader, Letters
    from mtlmon.tables.columns.wanted import Selection
    from mtlmon.tables.end_chains import EndChains
    from mtlmon.tables.formats import dialect as formats_dialect
    from mtlmon.tables.formats import rows as formats_rows
    from mtlmon.tables.formats import xes as formats_xes
    from mtlmon.tables.formats.dialect import Dialect
    from mtlmon.tables.formats.files import ByteStream
    from mtlmon.tables.formats.json_objects import PlainObjects
    from mtlmon.tables.formats.line_patterns import line_pattern
    from mtlmon.tables.formats.pairs import pair_names, pair_values
    from mtlmon.tables.formats.raw_rows import raw_rows
    from mtlmon.tables.formats.rows import LINES_OF_TEXT, TextBlock, text_blocks
    from mtlmon.tables.formats.schemas import read_line_schema, read_schema
    from mtlmon.tables.formats.xes import XesRows
    from mtlmon.tables.given_options import OF_EVENTS, OF_ROWS
    from mtlmon.tables.json_rows import JsonRowsOutput, json_lines
    from mtlmon.tables.looking_up import relations_with_columns
    from mtlmon.tables.native import RowSyntax, TimeFormat, count_line_feeds, object_rows
    from mtlmon.tables.outputs import CsvOutput, ParquetOutput, row_output
    from mtlmon.tables.querying import declared_records
    from mtlmon.tables.relations import RelationRows, TableAtom
    from mtlmon.tables.row_store import RowStore
    from mtlmon.tables.sorting import EventSorter
    from mtlmon.tables.stream_values import StreamTable
    from mtlmon.tables.text_atoms import text_streams
    from mtlmon.tables.valuations import ValuationTable
    from mtlmon.tables.verdicts import VerdictTable
    from mtlmon.testing.expectation import expectation
    from mtlmon.testing.plugin import AtTestEnd
    from mtlmon.testing.recording import AT_END, AtEnd, Mode
    from mtlmon.testing.seen import Unknown
    from mtlmon.testing.times import TimeReader
    from mtlmon.text.formats import guess_format
    from mtlmon.text.given import GivenText
    from mtlmon.text.head import LogHead
    from mtlmon.text.native import (
        MAX_LABEL_BYTES,
        MAX_LINE_BYTES,
        IsoWriter,
        LineOrder,
        Scanner,
        Writer,
    )
    from mtlmon.text.plausible_times import implausible_time
    from mtlmon.verdicts.arrays import FALSE, verdict_type
    from mtlmon.verdicts.native import Resolver
