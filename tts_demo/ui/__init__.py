"""The page: layout, handlers, live player, plots, endpoints. ``build_app(stack)`` makes it, ``launch(app)`` serves
it."""

from .page.layout import build_app
from .serve import launch
