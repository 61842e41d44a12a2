"""The protocol between two Safelights: requests, replies and the model as bytes and back, bit for bit.

All payloads are pure data from a stranger. Every function that reads them raises one ``SafelightError`` for anything
that is not as documented, before it takes memory for it. JSON payloads were parsed by ``engine.files.parse_json``.
A server has these paths (``engine/server/dialect.py``):

    GET   /safelight/v1/model          the loaded model (``model``)
    GET   /safelight/v1/tokenizer      its tokenizer.json as it is
    POST  /safelight/v1/tokens/count   {"messages": …} to {"tokens": …}
    POST  /safelight/v1/pictures       a picture's file as it is, to {"digest": …}; before a run shows it
    POST  /safelight/v1/pictures/missing   {"digests": …} to {"missing": …}, the pictures to send
    POST  /safelight/v1/run            a request (``request``) to a stream of replies, framed and checked as in a trace
                                       file (``stream``); closing the connection cancels the run within a step

A request that is refused before it begins gets an error object as in OpenAI's API, with a status of its own.
"""
