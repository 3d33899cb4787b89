package cri

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PodStatus returns everything about one pod of ours. An object that vanishes
// between the list and its inspection is left out. A pod of which nothing exists
// has an empty status and no error.
func (c *Client) PodStatus(ctx context.Context, uid types.UID) (*PodStatus, error) {
	s := &PodStatus{UID: uid, At: time.Now()}
	selector := map[string]string{LabelPodUID: string(uid), LabelInstance: c.instance}
	containers, err := c.listContainers(ctx, selector)
	if err != nil {
		return nil, err
	}
	sandboxes, err := c.listSandboxes(ctx, selector)
	if err != nil {
		return nil, err
	}
	for _, listed := range sandboxes {
		id := identify(listed)
		s.Name, s.Namespace = id.name, id.namespace
		seen := observedSandbox(listed, true)
		switch err := c.inspectSandbox(ctx, &seen); {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			return nil, err
		default:
			s.Sandboxes = append(s.Sandboxes, seen)
		}
	}
	for _, listed := range containers {
		if s.Name == "" {
			s.Name, s.Namespace = listed.Labels[LabelPodName], listed.Labels[LabelPodNamespace]
		}
		seen := observedContainer(listed, true)
		switch err := c.inspectContainer(ctx, &seen); {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			return nil, err
		default:
			s.Containers = append(s.Containers, seen)
		}
	}
	sortSandboxes(s.Sandboxes)
	sortContainers(s.Containers)
	s.IPs = podIPs(s.Sandboxes)
	return s, nil
}

// podIPs returns the addresses of the newest ready sandbox that has any.
func podIPs(newestFirst []Sandbox) []string {
	for _, s := range newestFirst {
		if s.Ready && len(s.IPs) > 0 {
			return s.IPs
		}
	}
	return nil
}

func (c *Client) inspectSandbox(ctx context.Context, s *Sandbox) error {
	a, err := read(ctx, c, operation{"inspect pod sandbox", s.ID}, runtimeapi.RuntimeServiceClient.PodSandboxStatus,
		&runtimeapi.PodSandboxStatusRequest{PodSandboxId: s.ID})
	if err != nil {
		return err
	}
	status := a.GetStatus()
	s.Ready = status.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY
	s.HostNetwork = status.GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
	if ip := status.GetNetwork().GetIp(); ip != "" {
		s.IPs = append(s.IPs, ip)
	}
	for _, more := range status.GetNetwork().GetAdditionalIps() {
		if more.GetIp() != "" {
			s.IPs = append(s.IPs, more.Ip)
		}
	}
	return nil
}

func (c *Client) inspectContainer(ctx context.Context, k *Container) error {
	a, err := read(ctx, c, operation{"inspect container", k.ID}, runtimeapi.RuntimeServiceClient.ContainerStatus,
		&runtimeapi.ContainerStatusRequest{ContainerId: k.ID})
	if err != nil {
		return err
	}
	status := a.GetStatus()
	k.State = containerState(status.GetState())
	if at := nanoTime(status.GetCreatedAt()); !at.IsZero() {
		k.CreatedAt = at
	}
	k.StartedAt = nanoTime(status.GetStartedAt())
	k.FinishedAt = nanoTime(status.GetFinishedAt())
	k.ExitCode = status.GetExitCode()
	k.Reason = status.GetReason()
	k.Message = status.GetMessage()
	k.LogPath = status.GetLogPath()
	k.StopSignal = apiSignal(status.GetStopSignal())
	if u := status.GetUser().GetLinux(); u != nil {
		k.User = &LinuxUser{UID: u.Uid, GID: u.Gid, SupplementalGroups: u.SupplementalGroups}
	}
	for _, m := range status.GetMounts() {
		if m.GetRecursiveReadOnly() {
			k.RecursiveReadOnly = append(k.RecursiveReadOnly, m.ContainerPath)
		}
	}
	if image := status.GetImage().GetImage(); image != "" {
		k.Image = image
	}
	if ref := status.GetImageRef(); ref != "" {
		k.ImageRef = ref
	}
	if k.State == StateExited {
		k.addMessage(c.terminationText(k))
	}
	return nil
}

// terminationText returns the termination message of a container that has exited,
// or the log that replaces it.
func (c *Client) terminationText(k *Container) string {
	message := ""
	if k.TerminationMessageHost != "" {
		message = c.readTerminationMessage(k.TerminationMessageHost)
	}
	if message == "" && k.usesLogFallback() {
		message = c.readLogTail(k.LogPath)
	}
	return message
}

// addMessage appends the container's termination message to the runtime's
// message, as with the kubelet.
func (k *Container) addMessage(message string) {
	switch {
	case message == "":
	case k.Message == "":
		k.Message = message
	default:
		k.Message += ": " + message
	}
}
