"""The demo: parse arguments, load the stack, build the page, serve it. Run ``python app.py`` and open the address."""

import argparse
import os
import signal
import sys
import threading

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # before gradio is imported


def arguments() -> argparse.Namespace:
    """Command-line arguments; each falls back to an environment variable so that a Space needs none."""
    from tts_demo.cli.main import Parser

    env = os.environ.get
    parser = Parser(description=__doc__)
    parser.add_argument(
        "--stack", default=env("TTS_DEMO_STACK", "nano"), help="nano, or a CosyVoice repository or folder"
    )
    parser.add_argument(
        "--adapters",
        default=env("TTS_DEMO_ADAPTERS"),
        help="methods trained for a released model: folder or repository",
    )
    parser.add_argument("--device", default=env("TTS_DEMO_DEVICE"), help="cpu, cuda; default: what is there")
    parser.add_argument(
        "--dtype", default=env("TTS_DEMO_DTYPE"), help="float32, bfloat16; default: what suits the device"
    )
    parser.add_argument("--host", default=env("GRADIO_SERVER_NAME", "127.0.0.1"))
    parser.add_argument("--port", type=int, default=env("GRADIO_SERVER_PORT", "7860"))
    parser.add_argument("--share", action="store_true", help="also open a public gradio.live address")
    return parser.parse_args()


def serve() -> None:
    args = arguments()
    from tts_demo.ui.zerogpu import service, zero_gpu

    zero_gpu()  # before anything touches CUDA
    from tts_demo.stacks import load_stack
    from tts_demo.ui import build_app, launch
    from tts_demo.ui.serve import check_address

    check_address(args.host, args.port)  # before anything is loaded
    # The page opens at once, with its recorded runs; the model is loaded behind it.
    demo = build_app(lambda: load_stack(args.stack, args.device, args.dtype, args.adapters))
    with service():
        launch(demo, args.host, args.port, args.share)


def main() -> int:
    """Exit code: 0, 2 for a mistake in the request, 130 when interrupted."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # until the page is there, which then ends in its own way
    from tts_demo.cli.settings import exit_code

    code = exit_code(serve)
    if any(thread.name == "load-stack" for thread in threading.enumerate()):
        sys.stderr.flush()
        os._exit(code)  # Python's own end would tear down what it still loads with, and abort
    return code


if __name__ == "__main__":
    sys.exit(main())
