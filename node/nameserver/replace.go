package nameserver

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// socketsVariable is the environment variable with the sockets that a program takes over, as
// NAME=FD separated by spaces.
const socketsVariable = "PODSTEAD_NAMESERVER_SOCKETS"

// replaceDrain limits how long a replacement waits for queries in progress. What arrives meanwhile waits in the
// sockets, which the next program has too.
const replaceDrain = time.Second

// inheritSockets returns the sockets of the program that this one has replaced.
func inheritSockets() (map[string]*os.File, error) {
	text := os.Getenv(socketsVariable)
	if err := os.Unsetenv(socketsVariable); err != nil {
		return nil, err
	}
	sockets := map[string]*os.File{}
	for _, entry := range strings.Fields(text) {
		name, number, _ := strings.Cut(entry, "=")
		fd, err := strconv.Atoi(number)
		if err != nil || fd < 3 {
			return sockets, fmt.Errorf("%s has the invalid entry %q", socketsVariable, entry)
		}
		unix.CloseOnExec(fd)
		sockets[name] = os.NewFile(uintptr(fd), name)
	}
	return sockets, nil
}

// replace executes another program in this process, which keeps the open sockets: no packet is
// lost, and no other process can take the port. It returns only if that fails.
func (s *Server) replace(ctx context.Context, argv []string) error {
	if len(argv) == 0 {
		return fmt.Errorf("no program is named")
	}
	l := &s.listeners
	resume := l.stopReceiving()
	defer resume()
	select {
	case <-s.forwards.idle():
	case <-time.After(replaceDrain):
	case <-ctx.Done():
		return ctx.Err()
	}
	var entries []string
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	for a, open := range l.open {
		for _, socket := range []struct {
			network string
			file    func() (*os.File, error)
		}{{"udp", open.udp.File}, {"tcp", open.tcp.File}} {
			f, err := socket.file()
			if err != nil {
				return err
			}
			files = append(files, f)
			fd := int(f.Fd())
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
				return err
			}
			// Fd has made the socket, which the duplicate shares, blocking.
			if err := unix.SetNonblock(fd, true); err != nil {
				return err
			}
			entries = append(entries, fmt.Sprintf("%s=%d", socketName(socket.network, a, l.port), fd))
		}
	}
	environment := append(os.Environ(), socketsVariable+"="+strings.Join(entries, " "))
	return unix.Exec(argv[0], argv[1:], environment)
}
