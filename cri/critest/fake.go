package critest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/internal/wakeup"
)

// Instance is the cri.LabelInstance of the clients that a Fake creates.
const Instance = "critest"

// Fake is a container runtime. Tests call its methods; CRI calls arrive over
// gRPC. All may be used concurrently. It has one field per part of the runtime's state.
type Fake struct {
	grpc *grpc.Server
	net  network

	mu         sync.Mutex
	closed     bool
	changed    wakeup.Broadcast
	serial     uint64
	lastTime   time.Time
	skew       time.Duration // of the clock that clients see
	sandboxes  map[string]*sandbox
	containers map[string]*container
	names      map[string]string // reserved name to ID

	runtime conditions
	images  imageStore
	faults  faultTable
	lists   staleLists
	events  eventHub
	record  recorder
	script  script
	stats   statsTable
}

// New starts a fake that ends with the test. For a synctest bubble it must be
// created in the bubble.
func New(t testing.TB) *Fake {
	t.Helper()
	f := Start()
	t.Cleanup(f.Close)
	return f
}

// Start starts a fake that the caller must Close. It has every image, no event
// stream and a ready network.
func Start() *Fake {
	f := &Fake{
		sandboxes:  map[string]*sandbox{},
		containers: map[string]*container{},
		names:      map[string]string{},
		runtime:    readyConditions(),
		images:     newImageStore(),
		record:     newRecorder(),
		script:     newScript(),
	}
	f.grpc = grpc.NewServer(
		grpc.MaxRecvMsgSize(16<<20),
		grpc.MaxSendMsgSize(16<<20),
		grpc.UnaryInterceptor(f.interceptUnary),
		grpc.StreamInterceptor(f.interceptStream),
		grpc.WaitForHandlers(true),
	)
	runtimeapi.RegisterRuntimeServiceServer(f.grpc, &runtimeServer{f: f})
	runtimeapi.RegisterImageServiceServer(f.grpc, &imageServer{f: f})
	f.serveMemory()
	return f
}

// Close ends every call and connection, and returns when they have ended. A
// second call does nothing.
func (f *Fake) Close() {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return
	}
	f.closed = true
	f.faults.releaseAll()
	f.images.releaseAll()
	f.changed.Notify()
	f.mu.Unlock()
	f.grpc.Stop()
	f.net.wait()
}

// Client returns a client of this runtime with the given instance, or Instance if
// none is given. It is closed with the test, before the fake.
func (f *Fake) Client(t testing.TB, instance ...string) *cri.Client {
	t.Helper()
	options := f.Options()
	if len(instance) > 0 {
		options.Instance = instance[0]
	}
	c, err := cri.Dial(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Options returns those with which cri.Dial connects to this fake over memory.
func (f *Fake) Options() cri.Options {
	return cri.Options{
		Endpoint:    "unix:///run/critest.sock",
		Instance:    Instance,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(f.dialMemory)},
	}
}

// now returns the time, but never the same twice: what is created later is newer,
// even where a bubble's clock stands still. The lock is held.
func (f *Fake) now() time.Time {
	now := time.Now()
	if !now.After(f.lastTime) {
		now = f.lastTime.Add(1)
	}
	f.lastTime = now
	return now.Add(f.skew)
}

// SetClock sets the clock from which the runtime takes times, ahead of its
// client's: recorded times are kept, as when the host's clock is set.
func (f *Fake) SetClock(ahead time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.skew = ahead
}

// newID returns a new ID of 64 hex digits. The lock is held.
func (f *Fake) newID() string {
	f.serial++
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], f.serial)
	sum := sha256.Sum256(n[:])
	return hex.EncodeToString(sum[:])
}

// newIP returns the address of the next sandbox. The lock is held.
func (f *Fake) newIP() string {
	f.serial++
	n := f.serial
	return fmt.Sprintf("10.%d.%d.%d", 88+n/(250*250)%100, n/250%250, 1+n%250)
}
