package preflight

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/podstead/podstead/cri"
)

// runtimeTimeout limits a request to the runtime.
const runtimeTimeout = 10 * time.Second

// Ask fills in what the runtime at r.Endpoint reports of itself. It creates nothing in the runtime.
func (r *Runtime) Ask(ctx context.Context) (shown cri.RuntimeConfig) {
	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	client, err := cri.Dial(cri.Options{Endpoint: r.Endpoint, Instance: "check", RequestTimeout: runtimeTimeout})
	if err != nil {
		r.Err = err
		return shown
	}
	defer client.Close()
	v, err := client.Version(ctx)
	if err != nil {
		r.Err = err
		return shown
	}
	r.Name, r.Version = v.Name, v.Version
	// A socket that systemd has opened for its service names systemd.
	if pid := Listener(strings.TrimPrefix(r.Endpoint, "unix://")); pid > 1 {
		r.PID, r.ConfigFile = pid, configFile(pid)
	}
	st, err := client.RuntimeStatus(ctx)
	if err != nil {
		r.Err = err
		return shown
	}
	r.NotReady, r.NoNetwork = st.RuntimeMessage, st.NetworkMessage
	// Checks of what these do not report are skipped.
	r.CgroupDriver, _ = client.CgroupDriver(ctx)
	shown, _ = client.RuntimeConfig(ctx)
	r.Images.Dir, _ = client.ImageMount(ctx)
	r.RestrictsOOMScore = shown.RestrictOOMScoreAdj
	r.PauseImage = shown.SandboxImage
	if r.Name == "containerd" {
		dump := containerdDump(ctx, r.PID)
		r.Images.SyncsLayers = syncsLayers.MatchString(dump)
		r.PauseImage = cmp.Or(r.PauseImage, pinnedSandbox(dump))
	}
	if r.PauseImage != "" {
		image, err := client.ImageStatus(ctx, r.PauseImage)
		r.PauseMissing = err == nil && image == nil
	}
	return shown
}
