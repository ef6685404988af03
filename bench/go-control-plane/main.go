// The server that Lockgate's is compared with: go-control-plane, with its snapshot cache or its linear cache, driven by
// the same control connection (bench/src/control.rs). It prints both addresses and ends with that connection.
package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"syscall"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
)

// The same limit as Lockgate's: a client that comes back names everything that it has.
const largestRequest = 64 << 20

func main() {
	cache := flag.String("cache", "linear", "linear or snapshot")
	flag.Parse()
	if err := run(*cache); err != nil {
		log.Fatal(err)
	}
}

func run(cache string) error {
	store, err := newStore(cache)
	if err != nil {
		return err
	}
	xds, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	control, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	grpcServer := grpc.NewServer(grpc.MaxRecvMsgSize(largestRequest))
	xdsServer := server.NewServer(context.Background(), store.cache(), nil)
	discovery.RegisterAggregatedDiscoveryServiceServer(grpcServer, xdsServer)
	go func() { log.Fatal(grpcServer.Serve(xds)) }()

	fmt.Println(xds.Addr(), control.Addr())
	connection, err := control.Accept()
	if err != nil {
		return err
	}
	return serve(connection, store)
}

// serve carries out commands until the connection ends. Set commands that already wait are carried out together.
func serve(connection net.Conn, store store) error {
	reader := bufio.NewReaderSize(connection, 1<<20)
	for {
		var waiting []string
		var other string
		for other == "" {
			line, err := reader.ReadString('\n')
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			if !strings.HasPrefix(line, "set ") {
				other = line
				break
			}
			waiting = append(waiting, line)
			if !holdsLine(reader) {
				break
			}
		}
		if len(waiting) > 0 {
			changes := newChanges()
			for _, line := range waiting {
				var kind string
				var first, count int
				var marker uint64
				if _, err := fmt.Sscanf(line, "set %s %d %d %x", &kind, &first, &count, &marker); err != nil {
					return fmt.Errorf("%q: %w", line, err)
				}
				changes.set(kind, first, count, marker)
			}
			if err := store.publish(changes); err != nil {
				return err
			}
			if _, err := io.WriteString(connection, strings.Repeat("ok\n", len(waiting))); err != nil {
				return err
			}
		}
		if other != "" {
			answer, err := act(other, store)
			if err != nil {
				return fmt.Errorf("%q: %w", other, err)
			}
			if _, err := fmt.Fprintf(connection, "ok %s\n", answer); err != nil {
				return err
			}
		}
	}
}

func holdsLine(reader *bufio.Reader) bool {
	held, _ := reader.Peek(reader.Buffered())
	return bytes.IndexByte(held, '\n') >= 0
}

func act(line string, store store) (string, error) {
	words := strings.Fields(line)
	var kind string
	var first, count int
	switch words[0] {
	case "noop":
		if _, err := fmt.Sscanf(line, "noop %s %d", &kind, &count); err != nil {
			return "", err
		}
		for range count {
			if err := store.republish(kind); err != nil {
				return "", err
			}
		}
		return "", nil
	case "remove":
		if _, err := fmt.Sscanf(line, "remove %s %d %d", &kind, &first, &count); err != nil {
			return "", err
		}
		changes := newChanges()
		changes.remove(kind, first, count)
		return "", store.publish(changes)
	case "settle":
		debug.FreeOSMemory()
		return "", nil
	case "stats":
		return usage()
	default:
		return "", fmt.Errorf("no command")
	}
}

// usage gives CPU time in nanoseconds, resident memory in KiB, and the most that it ever was.
func usage() (string, error) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return "", err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "", err
	}
	var resident, peak int
	for line := range strings.Lines(string(status)) {
		fmt.Sscanf(line, "VmRSS: %d kB", &resident)
		fmt.Sscanf(line, "VmHWM: %d kB", &peak)
	}
	return fmt.Sprint(used.Utime.Nano()+used.Stime.Nano(), resident, peak), nil
}
