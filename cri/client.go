package cri

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/internal/tracing"
)

const (
	// DefaultRequestTimeout is the kubelet's runtimeRequestTimeout.
	DefaultRequestTimeout = 2 * time.Minute

	// maxMessage is the kubelet's limit of one gRPC message in bytes.
	maxMessage = 16 << 20
	// maxList is the limit of the lists of all sandboxes and containers. A runtime may have a
	// lower one for what it sends; containerd's is 16 MiB, CRI-O's 80 MiB.
	maxList = 64 << 20
	// window lets a list of a thousand pods arrive without waiting for window
	// updates. A fixed window also turns off the bandwidth probe's pings.
	window = 4 << 20
	// maxSocketPath is what fits into sockaddr_un with its terminating NUL.
	maxSocketPath = 107
)

// reconnect retries a dead socket often enough to find a restarted runtime within
// about a second. It is a local connect, so it costs next to nothing while the
// runtime is down.
var reconnect = grpc.ConnectParams{
	Backoff: backoff.Config{
		BaseDelay:  50 * time.Millisecond,
		Multiplier: 1.6,
		Jitter:     0.2,
		MaxDelay:   800 * time.Millisecond,
	},
	MinConnectTimeout: 3 * time.Second,
}

// Options configure a Client.
type Options struct {
	// Endpoint is unix:///path or a bare /path.
	Endpoint string
	// Instance is the value of LabelInstance on our objects; while it is empty,
	// no object is ours.
	Instance string
	// RequestTimeout limits each call that has no limit of its own; 0 means
	// DefaultRequestTimeout.
	RequestTimeout time.Duration
	// Log may be nil.
	Log *slog.Logger
	// Observe is called after each call that was served or failed, with the
	// name of its method, such as RunPodSandbox, and ErrUnimplemented if the runtime
	// does not have it. It may be nil and must not block.
	Observe func(method string, took time.Duration, err error)
	// DialOptions are applied last and take precedence; tests set a dialer here.
	DialOptions []grpc.DialOption
}

// Client speaks CRI v1 with one runtime. It connects on first use and reconnects
// by itself. All methods may be called concurrently.
type Client struct {
	endpoint string
	instance string
	timeout  time.Duration
	log      *slog.Logger

	conn      *grpc.ClientConn
	runtime   runtimeapi.RuntimeServiceClient
	images    runtimeapi.ImageServiceClient
	inventory *inventory // of the last List
	// peer is the process that opened the socket.
	peer *atomic.Int32
}

// Dial creates a Client. It does not wait for the runtime: the first call reports
// that the runtime is down. Only an endpoint that can never work is an error.
func Dial(o Options) (*Client, error) {
	path, err := socketPath(o.Endpoint)
	if err != nil {
		return nil, err
	}
	peer := &atomic.Int32{}
	options := append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// The socket is dialed by its path, whatever characters it contains; gRPC
		// would parse it as a URL.
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "unix", path)
			if err == nil {
				peer.Store(listenerPID(conn))
			}
			return conn, err
		}),
		grpc.WithAuthority("localhost"),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithIdleTimeout(0),
		grpc.WithConnectParams(reconnect),
		grpc.WithInitialWindowSize(window),
		grpc.WithInitialConnWindowSize(window),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(maxMessage),
			grpc.MaxCallSendMsgSize(maxMessage),
		),
	}, o.DialOptions...)
	if o.Observe != nil {
		options = append(options, grpc.WithChainUnaryInterceptor(observeCalls(o.Observe)))
	}
	// Calls outside of a traced sync, such as lists, have no span.
	options = append(options, grpc.WithChainUnaryInterceptor(tracing.Interceptor))
	conn, err := grpc.NewClient("passthrough:///runtime", options...)
	if err != nil {
		return nil, fmt.Errorf("failed to use container runtime endpoint %q: %w", o.Endpoint, err)
	}
	c := &Client{
		endpoint:  "unix://" + path,
		instance:  o.Instance,
		timeout:   o.RequestTimeout,
		log:       o.Log,
		conn:      conn,
		runtime:   runtimeapi.NewRuntimeServiceClient(conn),
		images:    runtimeapi.NewImageServiceClient(conn),
		inventory: newInventory(o.Instance),
		peer:      peer,
	}
	if c.timeout <= 0 {
		c.timeout = DefaultRequestTimeout
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Close closes the connection and ends every call in progress.
func (c *Client) Close() error { return c.conn.Close() }

// Endpoint returns the runtime's address as errors show it: unix:///path.
func (c *Client) Endpoint() string { return c.endpoint }

// PID returns the process that opened the runtime's socket, 0 before the first connection or
// if it is not visible in this PID namespace.
func (c *Client) PID() int { return int(c.peer.Load()) }

// listenerPID returns the process at the other end of a unix socket, 0 if it is unknown.
func listenerPID(conn net.Conn) (pid int32) {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return 0
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if peer, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			pid = peer.Pid
		}
	})
	return pid
}

// Instance returns the value of LabelInstance that marks this client's objects.
func (c *Client) Instance() string { return c.instance }

// socketPath returns the path of a unix socket given as unix:///path or /path.
func socketPath(endpoint string) (string, error) {
	path := endpoint
	if rest, ok := strings.CutPrefix(endpoint, "unix://"); ok {
		path = rest
	}
	var fault error
	switch {
	case endpoint == "":
		fault = errors.New("the endpoint is empty")
	case !strings.HasPrefix(path, "/"):
		fault = errors.New("only unix sockets with an absolute path are supported")
	case strings.ContainsRune(path, 0):
		fault = errors.New("the path contains a NUL byte")
	case len(filepath.Clean(path)) > maxSocketPath:
		fault = fmt.Errorf("the path has %d bytes, the limit for a unix socket is %d", len(filepath.Clean(path)),
			maxSocketPath)
	default:
		return filepath.Clean(path), nil
	}
	return "", fmt.Errorf("container runtime endpoint %q: %w; write it as unix:///run/containerd/containerd.sock",
		endpoint, fault)
}
