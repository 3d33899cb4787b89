package shutdown

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"
)

// DropIn is the drop-in that makes logind wait longer. It is removed at the next
// boot, so that nothing remains on a host without podstead. Its name sorts last,
// after the kubelet's.
const DropIn = "/run/systemd/logind.conf.d/99-podstead.conf"

// D-Bus names.
const (
	login1       = "org.freedesktop.login1"
	login1Path   = dbus.ObjectPath("/org/freedesktop/login1")
	login1Object = login1 + ".Manager"

	systemd1       = "org.freedesktop.systemd1"
	systemd1Path   = dbus.ObjectPath("/org/freedesktop/systemd1")
	systemd1Object = systemd1 + ".Manager"

	signalPrepare = login1Object + ".PrepareForShutdown"
	signalOwner   = "org.freedesktop.DBus.NameOwnerChanged"
)

// systemdSocket is where systemd responds even after D-Bus has stopped.
const systemdSocket = "unix:path=/run/systemd/private"

// callTimeout limits a call of logind or systemd.
const callTimeout = 10 * time.Second

// SystemLogind is this host's logind over D-Bus.
type SystemLogind struct {
	// DropIn is the file that makes it wait longer.
	DropIn string
}

// Connect implements Logind.
func (l SystemLogind) Connect(ctx context.Context) (Session, error) {
	conn, err := dbus.SystemBusPrivate()
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, dropIn: l.DropIn, signals: make(chan *dbus.Signal, 16), changes: make(chan bool),
		closed: make(chan struct{})}
	// The handshake takes no context, so that a bus that hangs must be closed.
	limit, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	unhang := context.AfterFunc(limit, func() { _ = conn.Close() })
	if err := s.open(limit); err != nil || !unhang() {
		_ = conn.Close()
		return nil, errors.Join(err, limit.Err())
	}
	go s.listen()
	return s, nil
}

// Stopping implements Logind.
func (l SystemLogind) Stopping(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	state, err := systemState(ctx, func() (*dbus.Conn, error) { return dbus.Dial(systemdSocket) }, false)
	if err != nil {
		// This systemd no longer has the socket.
		state, err = systemState(ctx, func() (*dbus.Conn, error) { return dbus.SystemBusPrivate() }, true)
	}
	return state == "stopping", err
}

// systemState returns the state of the system manager; hello is for a bus.
func systemState(ctx context.Context, dial func() (*dbus.Conn, error), hello bool) (state string, err error) {
	conn, err := dial()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := greet(conn, hello); err != nil {
		return "", err
	}
	err = property(ctx, conn.Object(systemd1, systemd1Path), systemd1Object, "SystemState", &state)
	return state, err
}

// greet authenticates as this user. The library would look up the name.
func greet(conn *dbus.Conn, hello bool) error {
	if err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err != nil || !hello {
		return err
	}
	return conn.Hello()
}

func property(ctx context.Context, object dbus.BusObject, of, name string, to any) error {
	return object.CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, of, name).Store(to)
}

// session implements Session.
type session struct {
	conn   *dbus.Conn
	dropIn string
	// owner is the bus name of the logind of this session.
	owner   string
	signals chan *dbus.Signal
	changes chan bool
	closed  chan struct{}
}

func (s *session) open(ctx context.Context) error {
	if err := greet(s.conn, true); err != nil {
		return err
	}
	s.conn.Signal(s.signals)
	for _, rule := range [][]dbus.MatchOption{
		{dbus.WithMatchSender(login1), dbus.WithMatchObjectPath(login1Path), dbus.WithMatchInterface(login1Object),
			dbus.WithMatchMember("PrepareForShutdown")},
		{dbus.WithMatchSender("org.freedesktop.DBus"), dbus.WithMatchMember("NameOwnerChanged"),
			dbus.WithMatchArg(0, login1)},
	} {
		if err := s.conn.AddMatchSignalContext(ctx, rule...); err != nil {
			return err
		}
	}
	// The first call starts logind if it is not running.
	if _, err := s.MaxDelay(ctx); err != nil {
		return err
	}
	return s.conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.GetNameOwner", 0, login1).Store(&s.owner)
}

// listen converts signals to changes until the connection or its logind is gone.
// Any client can send signals; the bus guarantees the sender.
func (s *session) listen() {
	defer close(s.changes)
	for sig := range s.signals {
		switch {
		case sig.Name == signalOwner && sig.Sender == "org.freedesktop.DBus":
			if len(sig.Body) == 3 && sig.Body[0] == login1 && sig.Body[2] != s.owner {
				return
			}
		case sig.Name == signalPrepare && sig.Sender == s.owner && len(sig.Body) > 0:
			goesDown, ok := sig.Body[0].(bool)
			if !ok {
				continue
			}
			select {
			case s.changes <- goesDown:
			case <-s.closed:
				return
			}
		}
	}
}

func (s *session) Changes() <-chan bool { return s.changes }

func (s *session) Close() {
	close(s.closed)
	_ = s.conn.Close()
}

func (s *session) logind() dbus.BusObject { return s.conn.Object(login1, login1Path) }

func (s *session) Inhibit(ctx context.Context) (io.Closer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var fd dbus.UnixFD
	err := s.logind().CallWithContext(ctx, login1Object+".Inhibit", 0,
		"shutdown", "podstead", "pods are ended in order", "delay").Store(&fd)
	var dbusErr dbus.Error
	if errors.As(err, &dbusErr) && dbusErr.Name == login1+".OperationInProgress" {
		return nil, ErrTooLate
	}
	if err != nil {
		return nil, err
	}
	// A runtime that is started from here must not inherit the lock.
	syscall.CloseOnExec(int(fd))
	return os.NewFile(uintptr(fd), "logind-lock"), nil
}

func (s *session) Preparing(ctx context.Context) (preparing bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err = property(ctx, s.logind(), login1Object, "PreparingForShutdown", &preparing)
	return preparing, err
}

func (s *session) MaxDelay(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var micros uint64
	err := property(ctx, s.logind(), login1Object, "InhibitDelayMaxUSec", &micros)
	return time.Duration(min(micros, math.MaxInt64/1000)) * time.Microsecond, err
}

// Raise writes a drop-in and makes logind reload its configuration.
func (s *session) Raise(ctx context.Context, to time.Duration) error {
	text := fmt.Sprintf("# Written by podstead: time for pods to terminate before the host shuts "+
		"down.\n[Login]\nInhibitDelayMaxSec=%d\n", int64(math.Ceil(to.Seconds())))
	if err := os.MkdirAll(filepath.Dir(s.dropIn), 0o755); err != nil {
		return err
	}
	// logind reads it on reload, or when it starts.
	if err := os.WriteFile(s.dropIn, []byte(text), 0o644); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// Most versions do not support reloading the unit, but all handle the signal.
	return s.conn.Object(systemd1, systemd1Path).CallWithContext(ctx, systemd1Object+".KillUnit", 0,
		"systemd-logind.service", "main", int32(syscall.SIGHUP)).Err
}
