"""What a port-forward needs of the kubelet's API: GET /portForward/NAMESPACE/POD by WebSocket, protocol v4.channel.k8s.io.

Each port has two channels: its bytes, and its error. The first message on a channel is the port. A message is a binary frame
whose first byte is the channel. `kubectl port-forward` uses another protocol, which is not there.
"""
import base64
import ctypes
import hashlib
import select
import socket
import struct

MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
PROTOCOL = "v4.channel.k8s.io"
CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def setns(namespace):
    if libc.setns(namespace.fileno(), CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def connect(pod, port):
    """A connection inside of a pod to its 127.0.0.1, as the kubelet makes it: a socket is of the namespace of its thread."""
    with open("/proc/thread-self/ns/net") as own, open(f"/run/netns/{pod.netns}") as other:
        setns(other)
        try:
            return socket.create_connection(("127.0.0.1", port), 5)
        finally:
            setns(own)


def forward(handler, pod, ports):
    """Answers the upgrade, and forwards until one side closes."""
    offered = [one.strip() for one in handler.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    if handler.headers.get("Upgrade", "").lower() != "websocket" or PROTOCOL not in offered or not ports:
        return handler.send_error(400)
    key = handler.headers.get("Sec-WebSocket-Key", "") + MAGIC
    handler.send_response(101)
    handler.send_header("Upgrade", "websocket")
    handler.send_header("Connection", "Upgrade")
    handler.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
    handler.send_header("Sec-WebSocket-Protocol", PROTOCOL)
    handler.end_headers()
    handler.close_connection = True
    client = handler.connection
    sockets = {}
    for index, port in enumerate(ports):
        for channel in (2 * index, 2 * index + 1):
            send(client, channel, struct.pack("<H", port))
        try:
            sockets[2 * index] = connect(pod, port)
        except OSError as e:
            send(client, 2 * index + 1, f"cannot connect to port {port}: {e}".encode())
    try:
        pump(client, sockets)
    finally:
        for one in sockets.values():
            one.close()


def pump(client, sockets):
    buffered = b""
    while sockets:
        # Bytes that TLS has decrypted already do not make the socket readable.
        readable = [client] if client.pending() else select.select([client, *sockets.values()], [], [], 60)[0]
        if not readable:
            return
        for channel, one in list(sockets.items()):
            if one in readable:
                data = one.recv(60000)
                if not data:
                    one.close()
                    del sockets[channel]
                    frame(client, 8, struct.pack(">H", 1000))
                    return
                send(client, channel, data)
        if client in readable:
            data = client.recv(65536)
            if not data:
                return
            buffered += data
            while (whole := parse(buffered)) is not None:
                opcode, payload, buffered = whole
                if opcode == 8:
                    return
                if opcode == 9:
                    frame(client, 10, payload)
                if opcode == 2 and payload and payload[0] in sockets:
                    sockets[payload[0]].sendall(payload[1:])


def parse(data):
    """The opcode and the content of the first frame, and the bytes after it; None while it is not complete."""
    if len(data) < 2:
        return None
    length, at = data[1] & 0x7F, 2
    if length == 126:
        length, at = int.from_bytes(data[2:4], "big"), 4
    elif length == 127:
        length, at = int.from_bytes(data[2:10], "big"), 10
    mask = data[at:at + 4] if data[1] & 0x80 else bytes(4)
    at += 4 if data[1] & 0x80 else 0
    if len(data) < at + length:
        return None
    payload = bytes(byte ^ mask[i % 4] for i, byte in enumerate(data[at:at + length]))
    return data[0] & 0x0F, payload, data[at + length:]


def send(client, channel, data):
    frame(client, 2, bytes([channel]) + data)


def frame(client, opcode, payload):
    length = len(payload)
    size = bytes([length]) if length < 126 else bytes([126]) + struct.pack(">H", length)
    client.sendall(bytes([0x80 | opcode]) + size + payload)
