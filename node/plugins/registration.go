package plugins

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	api "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/podstead/podstead/internal/retry"
)

// maxRetryDelay limits the delay between two attempts to reach a plugin.
const maxRetryDelay = 5 * time.Minute

// maxResponse limits the responses of plugins, in bytes.
const maxResponse = 1 << 20

// registration is that of one socket. Its goroutine ends when the plugin has accepted that it is registered or
// rejected.
type registration struct {
	path   string
	id     socketID
	cancel context.CancelFunc
	// done is closed after the goroutine has ended; deregister, nil for a plugin that is not
	// registered, can be read then.
	done       chan struct{}
	deregister func()
}

// start starts the registration of a socket.
func (w *Watcher) start(ctx context.Context, path string, id socketID) *registration {
	ctx, cancel := context.WithCancel(ctx)
	r := &registration{path: path, id: id, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		defer cancel()
		r.deregister = w.register(ctx, path)
	}()
	return r
}

// end deregisters the plugin of a socket that is gone.
func (r *registration) end() {
	r.cancel()
	<-r.done
	if r.deregister != nil {
		r.deregister()
	}
}

// register asks the plugin who it is until it responds, and gives it to the handler of its type. The
// result is nil if that rejects it, or if ctx ends.
func (w *Watcher) register(ctx context.Context, path string) (deregister func()) {
	conn, err := Dial(path, maxResponse, time.Second)
	if err != nil {
		w.log.Error("Failed to register plugin", "socket", path, "err", err)
		return nil
	}
	defer conn.Close()
	client := api.NewRegistrationClient(conn)
	var info *api.PluginInfo
	responded := w.repeat(ctx, func(ctx context.Context) (err error) {
		// A socket is found before the plugin listens on it.
		info, err = client.GetInfo(ctx, &api.InfoRequest{}, grpc.WaitForReady(true))
		return err
	}, func(err error) {
		w.log.Warn("Failed to ask a plugin for its registration, retrying", "socket", path, "err",
			status.Convert(err).Message())
	})
	if !responded {
		return nil
	}
	return w.give(ctx, client, path, info)
}

// repeat makes a call to a plugin until it succeeds, which it reports, or ctx ends. failed is called once: the
// socket may be left from a plugin that is gone.
func (w *Watcher) repeat(ctx context.Context, call func(context.Context) error, failed func(error)) bool {
	for delay := w.options.RetryDelay; ; delay = min(2*delay, maxRetryDelay) {
		limited, cancel := context.WithTimeout(ctx, w.options.Timeout)
		err := call(limited)
		cancel()
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if delay == w.options.RetryDelay {
			failed(err)
		}
		if !retry.Sleep(ctx, delay) {
			return false
		}
	}
}

// give gives the plugin to the handler of its type, and reports the result to the plugin until that accepts it.
// A kubelet ends the use of such a plugin meanwhile, and registers it again; here it is used.
func (w *Watcher) give(ctx context.Context, client api.RegistrationClient, path string,
	info *api.PluginInfo) (deregister func()) {
	log := w.log.With("type", info.GetType(), "plugin", info.GetName(), "socket", path)
	p := Plugin{Name: info.GetName(), Endpoint: info.GetEndpoint(), Versions: info.GetSupportedVersions()}
	if p.Endpoint == "" {
		p.Endpoint = path
	}
	handler, ok := w.options.Handlers[info.GetType()]
	var err error
	switch {
	case !ok:
		err = fmt.Errorf("plugins of type %q are not supported here, only %s", info.GetType(),
			strings.Join(slices.Sorted(maps.Keys(w.options.Handlers)), ", "))
	case p.Name == "":
		err = errors.New("the plugin has no name; GetInfo must return one")
	case !filepath.IsAbs(p.Endpoint):
		err = fmt.Errorf("endpoint %q is not valid; it must be the absolute path of the plugin's socket", p.Endpoint)
	default:
		deregister, err = handler.Register(ctx, p)
	}
	if ctx.Err() != nil && err != nil {
		return nil
	}
	result := &api.RegistrationStatus{PluginRegistered: err == nil}
	if err != nil {
		result.Error = err.Error()
		log.Warn("Registration of a plugin rejected", "err", err)
	} else {
		log.Info("Plugin registered", "endpoint", p.Endpoint)
	}
	w.repeat(ctx, func(ctx context.Context) error {
		_, err := client.NotifyRegistrationStatus(ctx, result)
		return err
	}, func(err error) {
		log.Warn("Failed to report the result of its registration to a plugin, retrying", "err",
			status.Convert(err).Message())
	})
	return deregister
}
