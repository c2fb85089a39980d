"""The command line: ``python -m tts_demo COMMAND``."""
