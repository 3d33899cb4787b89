package objects

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api/client"
)

const (
	// maxLastLines is the maximum number of logs that one command reads for their last lines.
	maxLastLines = 20
	// maxLastLine is the maximum length of such a line in bytes, that of a termination message
	// that is made of a log.
	maxLastLine = 2 << 10
	// lastLineTimeout limits the wait for one of them.
	lastLineTimeout = 2 * time.Second
)

// AddLastLines gives containers that have failed without a termination message the last line of
// their log as the message: it usually reports why. A log that cannot be read changes nothing.
func AddLastLines(ctx context.Context, c *client.Client, pods []v1.Pod) {
	left := maxLastLines
	for i := range pods {
		for _, list := range [][]v1.ContainerStatus{pods[i].Status.InitContainerStatuses, pods[i].Status.ContainerStatuses} {
			for n := range list {
				t := failure(&list[n])
				if t == nil || t.Message != "" || left == 0 {
					continue
				}
				left--
				t.Message = lastLine(ctx, c, &pods[i], &list[n])
			}
		}
	}
}

// failure returns the failure because of which a container does not run, nil if there is none.
func failure(c *v1.ContainerStatus) *v1.ContainerStateTerminated {
	t := c.State.Terminated
	if c.State.Waiting != nil {
		t = c.LastTerminationState.Terminated
	}
	if t == nil || t.ExitCode == 0 || t.Reason == "OOMKilled" {
		return nil
	}
	return t
}

// lastLine returns the last line of the log of the instance that has ended last.
func lastLine(ctx context.Context, c *client.Client, pod *v1.Pod, container *v1.ContainerStatus) string {
	path := fmt.Sprintf("/containerLogs/%s/%s/%s?tailLines=1", url.PathEscape(pod.Namespace), url.PathEscape(pod.Name),
		url.PathEscape(container.Name))
	if container.State.Waiting != nil {
		path += "&previous=true"
	}
	ctx, cancel := context.WithTimeout(ctx, lastLineTimeout)
	defer cancel()
	body, err := c.Open(ctx, path)
	if err != nil {
		return ""
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxLastLine))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
