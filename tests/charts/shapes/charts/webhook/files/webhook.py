"""Refuses everything that it is asked about, over TLS with the certificate of a mounted Secret."""

import http.server
import json
import os
import ssl


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer({})

    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = {"message": f"refused by revision {os.environ['REVISION']}"}
        response = {"uid": review["request"]["uid"], "allowed": False, "status": status}
        self.answer({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})

    def answer(self, tree):
        body = json.dumps(tree).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/certificate/tls.crt", "/certificate/tls.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
