"""The course kit: assignments for a teacher to hand out, and checks of what students hand in. See docs/teachers.md."""

from needle.course.assignment import Assignment as Assignment
from needle.course.assignment import built_in as built_in
from needle.course.assignment import find as find
from needle.course.checks import Check as Check
from needle.course.checks import Finding as Finding
from needle.course.checks import Mistake as Mistake
from needle.course.checks import normal as normal
from needle.course.differentiable import differentiable as differentiable
from needle.course.handout import make as make
from needle.course.report import Report as Report
from needle.course.report import Result as Result
from needle.course.sandbox import Limits as Limits
from needle.course.sandbox import check as check
