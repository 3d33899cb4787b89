package nameserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"
)

const (
	// maxControlConns limits the connections to the control socket, to which only root has access.
	maxControlConns = 16
	// maxControlRequest limits a request in bytes.
	maxControlRequest = 64 << 10
	controlWrite      = 5 * time.Second
)

// Status is what the server reports on its control socket, as a line of JSON: at once, and after
// each change of its listeners.
type Status struct {
	Pid int `json:"pid"`
	// Listening are the addresses that are open; Failed reports why others are not.
	Listening []netip.Addr      `json:"listening"`
	Failed    map[string]string `json:"failed,omitempty"`
	// Snapshot reports that a snapshot was read.
	Snapshot bool     `json:"snapshot"`
	Counters Counters `json:"counters"`
	// Refused reports why the last Request of this connection failed.
	Refused string `json:"refused,omitempty"`
}

// Counters are what the server has done since its start.
type Counters struct {
	// Queries are all valid ones of clients, Forwarded those that other servers were asked about,
	// Failed those of them without an answer.
	Queries, Forwarded, Failed uint64
	// Rejected were beyond a limit, Foreign came from an address that is no client.
	Rejected, Foreign uint64
}

// Request is what the daemon sends on the control socket, as a line of JSON.
type Request struct {
	// Exec replaces the program: its path, then its arguments.
	Exec []string `json:"exec,omitempty"`
}

func (s *Server) status() Status {
	listening, failed := s.listeners.state()
	return Status{Pid: os.Getpid(), Listening: listening, Failed: failed, Snapshot: s.names.Load() != nil,
		Counters: Counters{
			Queries: s.stats.queries.Load(), Forwarded: s.stats.forwarded.Load(), Failed: s.stats.failed.Load(),
			Rejected: s.stats.rejected.Load(), Foreign: s.stats.foreign.Load(),
		}}
}

// serveControl answers the control socket until ctx ends. Only one server of a directory has it:
// a second one ends with an error.
func (s *Server) serveControl(ctx context.Context) error {
	path := s.dir.Socket()
	if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = conn.Close()
		return fmt.Errorf("another name server answers on %s", path)
	}
	_ = os.Remove(path) // of a server that was killed
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("failed to open the control socket: %w", err)
	}
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	slots := make(chan struct{}, maxControlConns)
	for {
		conn, err := l.Accept()
		if err != nil {
			if isClosed(ctx, err) {
				return nil
			}
			return err
		}
		select {
		case slots <- struct{}{}:
		default:
			_ = conn.Close()
			continue
		}
		go func() {
			defer func() { <-slots }()
			s.serveControlConn(ctx, conn)
		}()
	}
}

func (s *Server) serveControlConn(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	refused := make(chan string, 1)
	go func() {
		defer cancel()
		decoder := json.NewDecoder(io.LimitReader(conn, maxControlRequest))
		for {
			var request Request
			if err := decoder.Decode(&request); err != nil {
				return
			}
			s.log.Info("Replacing the program", "program", request.Exec)
			if err := s.replace(ctx, request.Exec); err != nil {
				s.log.Error("Failed to replace the program, continuing with this one", "err", err)
				select {
				case refused <- err.Error():
				case <-ctx.Done():
				}
			}
		}
	}()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	changed, unsubscribe := s.statusChanged.Subscribe()
	defer unsubscribe()
	why := ""
	for {
		status := s.status()
		status.Refused, why = why, ""
		_ = conn.SetWriteDeadline(time.Now().Add(controlWrite))
		if err := json.NewEncoder(conn).Encode(status); err != nil {
			return
		}
		select {
		case <-changed:
		case why = <-refused:
		case <-ctx.Done():
			return
		}
	}
}
