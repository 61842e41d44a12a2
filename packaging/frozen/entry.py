"""Where the bundled program starts: puts right what bundling changes, then hands over to the command line."""

from __future__ import annotations

import multiprocessing
import os
import sys

LIBRARY_PATH = "LD_LIBRARY_PATH"


def restore_library_path() -> None:
    """Programs that we start (a browser, a file manager) get the system's libraries, not the bundle's.

    The loader of our own libraries read the variable when this process began, so that they stay found.
    """
    original = os.environ.pop(f"{LIBRARY_PATH}_ORIG", None)
    os.environ.pop(LIBRARY_PATH, None)
    if original:
        os.environ[LIBRARY_PATH] = original


if __name__ == "__main__":
    multiprocessing.freeze_support()  # a worker process starts this same program
    if sys.platform.startswith("linux"):
        restore_library_path()
    if sys.argv[1:] == ["--prose-slow"]:  # formulas and code, see app/chat/markdown_view/side_process.py
        from app.chat.markdown_view import slow

        slow.main()
        sys.exit(0)
    if sys.argv[1:] == ["--read-document"]:  # see app/documents/reader.py
        from app.documents import formats

        formats.main()
        sys.exit(0)
    if sys.argv[1:] == ["--match"]:  # the process that holds answers to formats, see engine/text/matching.py
        from engine.text import matcher_process

        matcher_process.main()
        sys.exit(0)
    if sys.argv[1:] == ["--example-tools"]:  # see engine/tools/connection.py
        from engine.tools import example_server

        example_server.main()
        sys.exit(0)
    import bundle_fixes

    bundle_fixes.install()
    if sys.argv[1:] == ["--check-bundle"]:
        import bundle_check

        sys.exit(bundle_check.main())
    if sys.argv[1:2] == ["--doctor"]:  # a section of ``safelight doctor``, see engine/doctor/examine.py
        from engine.doctor.child import main as run_section

        sys.exit(run_section(sys.argv[2:]))
    from app.__main__ import main

    sys.exit(main())
