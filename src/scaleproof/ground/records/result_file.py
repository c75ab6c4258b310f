"""What all files of results that stages exchange have in common: JSON of these models, written and read by name."""

from pydantic import BaseModel, ConfigDict

from scaleproof.ground.confidence import Estimate


class ResultPart(BaseModel):
    """A section of such a file."""

    model_config = ConfigDict(
        extra="forbid", populate_by_name=True, serialize_by_alias=True, allow_inf_nan=False, defer_build=True
    )

    def figure(self, name: str) -> "Estimated | None":
        """Return the estimate in the field of that name; None where it holds something else."""
        value = getattr(self, name)
        return value if isinstance(value, Estimated) else None


class Estimated(ResultPart):
    """A quantity with its 95 % interval over `n` runs; null bounds: no basis for one."""

    value: float
    low: float | None
    high: float | None
    n: int

    @classmethod
    def of(cls, estimate: Estimate) -> "Estimated":
        """Return an estimate in the form that files have."""
        return cls(value=estimate.value, low=estimate.low, high=estimate.high, n=estimate.n)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Both ends of the interval; None without an interval."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def inverse(self) -> "Estimated":
        """The estimate of the ratio the other way round."""
        low, high = (1 / self.high, 1 / self.low) if self.high and self.low else (None, None)
        return self.model_copy(update={"value": 1 / self.value, "low": low, "high": high})

    def times(self, factor: float) -> "Estimated":
        """Return the quantity and its interval times `factor`, above 0."""
        low, high = (None if bound is None else bound * factor for bound in (self.low, self.high))
        return self.model_copy(update={"value": self.value * factor, "low": low, "high": high})

    def above(self, mark: float = 1.0) -> bool:
        """Return whether the quantity is shown to be above `mark`: its whole interval is; False without an interval."""
        return self.low is not None and self.low > mark

    def below(self, mark: float = 1.0) -> bool:
        """Return whether the quantity is shown to be below `mark`: its whole interval is; False without an interval."""
        return self.high is not None and self.high < mark

    def spans(self, mark: float = 1.0) -> bool:
        """Return whether the interval leaves open on which side of `mark` the quantity is; False without one."""
        return self.bounds is not None and self.bounds[0] <= mark <= self.bounds[1]
