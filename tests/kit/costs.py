"""Names tests use of money: prices, costs, days, forecasts."""

from crawlfleet.fleet.prices import cost_of, prices_of
from crawlfleet.jobs.costs.forecast import KEPT, Known, RunSummary, forecast, reach_of
from crawlfleet.jobs.costs.mongo import MongoCosts, MongoHistories
