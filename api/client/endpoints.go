package client

import (
	"context"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/podstead/podstead/api"
)

// get decodes the response to a GET request to one of podstead's own endpoints.
func get[T any](ctx context.Context, c *Client, path string) (answer T, err error) {
	err = c.Get(ctx, api.Path+path, &answer)
	return answer, err
}

// post decodes the response to a POST request to one of podstead's own endpoints. Only ctx limits its time.
func post[T any](ctx context.Context, c *Client, path string, q url.Values) (answer T, err error) {
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	err = c.Post(ctx, api.Path+path, &answer)
	return answer, err
}

// podPath returns the path of a pod. The name is that of the pod, or the one in its manifest.
func podPath(namespace, name string) string {
	return "/namespaces/" + url.PathEscape(namespace) + "/pods/" + url.PathEscape(name)
}

// Manifests returns the state of each source of manifests.
func (c *Client) Manifests(ctx context.Context) ([]api.ManifestSource, error) {
	return get[[]api.ManifestSource](ctx, c, "/manifests")
}

// Objects returns the objects that manifests declare in addition to pods, sorted by kind, namespace and name.
func (c *Client) Objects(ctx context.Context) ([]api.ManifestObject, error) {
	return get[[]api.ManifestObject](ctx, c, "/objects")
}

// Images returns the images of the runtime.
func (c *Client) Images(ctx context.Context) ([]api.Image, error) {
	return get[[]api.Image](ctx, c, "/images")
}

// ImageArchives returns the state of the directory of image archives.
func (c *Client) ImageArchives(ctx context.Context) (api.ImageArchives, error) {
	return get[api.ImageArchives](ctx, c, "/images/archives")
}

// PruneImages removes unused images, and returns them and those that could not be removed, with Error; with dryRun
// those that would be removed.
func (c *Client) PruneImages(ctx context.Context, dryRun bool) ([]api.Image, error) {
	return post[[]api.Image](ctx, c, "/images/prune", url.Values{"dryRun": {strconv.FormatBool(dryRun)}})
}

// PullImage pulls an image.
func (c *Client) PullImage(ctx context.Context, p api.Pull) (api.Image, error) {
	q := url.Values{"image": {p.Image}}
	if p.Namespace != "" {
		q.Set("namespace", p.Namespace)
	}
	if len(p.Secrets) > 0 {
		q["secret"] = p.Secrets
	}
	return post[api.Image](ctx, c, "/images/pull", q)
}

// LoadImages loads the images of an archive; name is that of an image without one, and may be empty. It does not
// close the archive.
func (c *Client) LoadImages(ctx context.Context, archive io.Reader, name string) (list []api.Image, err error) {
	// The reader is passed without its Close.
	err = c.PostBody(ctx, api.Path+"/images/load?"+url.Values{"name": {name}}.Encode(), io.MultiReader(archive), &list)
	return list, err
}

// PodStarts returns how long the pods took to start that this daemon has started.
func (c *Client) PodStarts(ctx context.Context) ([]api.PodStart, error) {
	return get[[]api.PodStart](ctx, c, "/starts")
}

// RestartPod terminates a pod, to start it again. It returns when the termination has begun.
func (c *Client) RestartPod(ctx context.Context, namespace, name string) (api.RestartedPod, error) {
	return post[api.RestartedPod](ctx, c, podPath(namespace, name)+"/restart", nil)
}

// Rollouts returns the rollouts of all static pods, sorted by pod.
func (c *Client) Rollouts(ctx context.Context) ([]api.Rollout, error) {
	return get[[]api.Rollout](ctx, c, "/rollouts")
}

// RolloutHistory returns the revision of a pod that is prepared, if any, and those that were in effect, the
// newest first.
func (c *Client) RolloutHistory(ctx context.Context, namespace, name string) ([]api.RolloutRevision, error) {
	return get[[]api.RolloutRevision](ctx, c, podPath(namespace, name)+"/rollout/history")
}

// UndoRollout puts an earlier revision into effect, the previous one that was Ready if revision is empty. It returns
// when the request is recorded.
func (c *Client) UndoRollout(ctx context.Context, namespace, name, revision string) (api.Rollout, error) {
	q := url.Values{}
	if revision != "" {
		q.Set("revision", revision)
	}
	return post[api.Rollout](ctx, c, podPath(namespace, name)+"/rollout/undo", q)
}

// RetryRollout puts the revision of the manifest into effect again. It returns when the request is recorded.
func (c *Client) RetryRollout(ctx context.Context, namespace, name string) (api.Rollout, error) {
	return post[api.Rollout](ctx, c, podPath(namespace, name)+"/rollout/retry", nil)
}

// AutoUpdates returns what is known of the image updates of all pods that ask for them.
func (c *Client) AutoUpdates(ctx context.Context) ([]api.AutoUpdate, error) {
	return get[[]api.AutoUpdate](ctx, c, "/auto-update")
}

// CheckUpdates checks the images of pods, as namespace/name, or of all without one, and starts the rollouts of newer
// ones unless dryRun is set.
func (c *Client) CheckUpdates(ctx context.Context, pods []string, dryRun bool) ([]api.AutoUpdate, error) {
	q := url.Values{"dryRun": {strconv.FormatBool(dryRun)}}
	if len(pods) > 0 {
		q["pod"] = pods
	}
	return post[[]api.AutoUpdate](ctx, c, "/auto-update", q)
}

// LeaveCluster removes the node from its cluster. The timeout limits how long the daemon waits for pods to terminate.
func (c *Client) LeaveCluster(ctx context.Context, timeout time.Duration) (api.LeaveResult, error) {
	return post[api.LeaveResult](ctx, c, "/cluster/leave", url.Values{"timeout": {timeout.String()}})
}

// Volumes returns the volumes of claims, with usage also what they contain, which takes seconds if they are large.
func (c *Client) Volumes(ctx context.Context, usage bool) ([]api.PersistentVolume, error) {
	path := "/volumes"
	if usage {
		path += "?usage=true"
	}
	return get[[]api.PersistentVolume](ctx, c, path)
}

// RemoveVolume deletes the volume of a claim with its content.
func (c *Client) RemoveVolume(ctx context.Context, namespace, claim string) error {
	return c.Delete(ctx, api.Path+"/volumes/"+url.PathEscape(namespace)+"/"+url.PathEscape(claim))
}

// CreateKubeconfig issues a kubeconfig for a role. It is valid for the default of the role if validity is zero.
func (c *Client) CreateKubeconfig(ctx context.Context, role string, validity time.Duration) (api.Kubeconfig, error) {
	q := url.Values{"role": {role}}
	if validity > 0 {
		q.Set("duration", validity.String())
	}
	return post[api.Kubeconfig](ctx, c, "/kubeconfig", q)
}

// RevokeKubeconfig revokes the kubeconfig with an ID, RevokeKubeconfigs all of them.
func (c *Client) RevokeKubeconfig(ctx context.Context, id string) error {
	return c.Delete(ctx, api.Path+"/kubeconfig/"+url.PathEscape(id))
}

// RevokeKubeconfigs revokes every kubeconfig that was issued, and closes their port.
func (c *Client) RevokeKubeconfigs(ctx context.Context) error {
	return c.Delete(ctx, api.Path+"/kubeconfig")
}
