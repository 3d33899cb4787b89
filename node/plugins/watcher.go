package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	api "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// DevicePlugin is the type of device plugins, DRAPlugin that of the drivers of dynamic resource allocation,
// CSIPlugin that of CSI drivers.
const (
	DevicePlugin = api.DevicePlugin
	DRAPlugin    = api.DRAPlugin
	CSIPlugin    = api.CSIPlugin
)

// reopenDelay is how long Run waits after a removal before it creates the directory, if it was removed.
const reopenDelay = time.Second

// Plugin is what a plugin reports when it registers.
type Plugin struct {
	// Name is the resource of a device plugin, and the name of the driver of any other.
	Name string
	// Endpoint is the absolute path of the socket on which the plugin serves its own API.
	Endpoint string
	// Versions are those of its API that the plugin supports.
	Versions []string
}

// Handler takes the plugins of one type.
type Handler interface {
	// Register starts to use a plugin. The error is reported to the plugin, which is not asked
	// again before it creates another socket. deregister ends the use of this plugin and no other;
	// it is called once, after the socket was removed.
	Register(ctx context.Context, p Plugin) (deregister func(), err error)
}

// Options configure a Watcher.
type Options struct {
	// Dir is the directory of the registration sockets. Sockets in its subdirectories count, those
	// below a name that starts with a dot do not.
	Dir string
	// Handlers are those of the supported types, by the type as the API names it.
	Handlers map[string]Handler
	// Log takes the log messages; nil discards them.
	Log *slog.Logger
	// Timeout is for each call to a plugin, by default 10 s. RetryDelay is before a call that failed
	// is repeated, by default 5 s; it doubles up to 5 minutes.
	Timeout, RetryDelay time.Duration
}

// Watcher registers the plugins whose sockets are in a directory. Run is to be called once.
type Watcher struct {
	options Options
	log     *slog.Logger
	// events is nil if the directory cannot be watched; only Run uses it, and sockets.
	events  *fsnotify.Watcher
	sockets map[string]*registration
}

// New returns a watcher. It starts nothing.
func New(o Options) *Watcher {
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.RetryDelay = cmp.Or(o.RetryDelay, 5*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{options: o, log: o.Log, sockets: map[string]*registration{}}
}

// Open creates the directory, so that an error can end the start of the daemon.
func (w *Watcher) Open() error {
	if err := os.MkdirAll(w.options.Dir, 0o750); err != nil {
		return fmt.Errorf("failed to create the directory in which plugins register: %w", err)
	}
	return nil
}

// Run registers plugins until ctx ends. It does not deregister them then: they are in use until
// their users end.
func (w *Watcher) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		for _, r := range w.sockets {
			<-r.done
		}
	}()
	var events chan fsnotify.Event
	var faults chan error
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		w.log.Warn("Failed to watch the directory in which plugins register; one that starts later registers when podstead "+
			"is restarted",
			"directory", w.options.Dir, "err", fmt.Errorf("%w; raise fs.inotify.max_user_instances", err))
	} else {
		defer watcher.Close()
		w.events, events, faults = watcher, watcher.Events, watcher.Errors
	}
	w.scan(ctx)
	var reopen <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-events:
			if !e.Has(fsnotify.Create | fsnotify.Remove | fsnotify.Rename) {
				continue
			}
			if e.Has(fsnotify.Remove | fsnotify.Rename) {
				// The removal of the directory itself is not always reported.
				reopen = time.After(reopenDelay)
			}
			w.scan(ctx)
		case err := <-faults:
			w.log.Warn("Failed to watch the directory in which plugins register", "directory", w.options.Dir, "err", err)
			w.scan(ctx) // events may be lost
		case <-reopen:
			reopen = nil
			if err := w.Open(); err != nil {
				w.log.Error("Directory in which plugins register was removed and cannot be created again; plugins that start "+
					"cannot register before podstead is restarted", "err", err)
			}
			w.scan(ctx)
		}
	}
}

// scan starts the registration of sockets that are new or that replaced another one, and ends that
// of those that are gone.
func (w *Watcher) scan(ctx context.Context) {
	found := w.find()
	for path, r := range w.sockets {
		if id, ok := found[path]; !ok || id != r.id {
			r.end()
			delete(w.sockets, path)
		}
	}
	for path, id := range found {
		if w.sockets[path] == nil {
			w.sockets[path] = w.start(ctx, path, id)
		}
	}
}

// socketID tells a socket from another one at its path.
type socketID struct {
	device, inode uint64
	created       time.Time
}

// find returns the sockets of the directory, and watches the directories below it.
func (w *Watcher) find() map[string]socketID {
	found := map[string]socketID{}
	_ = filepath.WalkDir(w.options.Dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			if !errors.Is(err, fs.ErrNotExist) {
				w.log.Warn("Failed to read a directory in which plugins register", "directory", path, "err", err)
			}
			return nil
		case path != w.options.Dir && strings.HasPrefix(e.Name(), "."):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir():
			w.watch(path)
		case e.Type()&fs.ModeSocket != 0:
			if info, err := e.Info(); err == nil {
				stat := info.Sys().(*syscall.Stat_t)
				found[path] = socketID{uint64(stat.Dev), stat.Ino, info.ModTime()}
			}
		}
		return nil
	})
	return found
}

// watch watches a directory; one that is watched already stays so.
func (w *Watcher) watch(dir string) {
	if w.events == nil {
		return
	}
	if err := w.events.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.log.Warn("Failed to watch a directory in which plugins register; one that starts later registers when podstead "+
			"is restarted", "directory", dir, "err", err)
	}
}
