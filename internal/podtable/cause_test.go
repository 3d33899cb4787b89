package podtable

import (
	"strings"
	"testing"
)

// The messages of containerd 1.6 and 2.x, runc, crun, and registries, as they were seen.
func TestCause(t *testing.T) {
	const pull16 = `failed to pull and unpack image "docker.io/library/nginx:nope": failed to resolve reference "docker.io/library/nginx:nope": `
	const create16 = `failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: `
	const create2 = `failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: `
	for _, c := range []struct{ message, want string }{
		{`Failed to pull image "nginx:nope": ` + pull16 + `docker.io/library/nginx:nope: not found`,
			"image docker.io/library/nginx:nope not found in its registry; correct the name or the tag"},
		{`Back-off pulling image "nginx:nope": ErrImagePull: rpc error: code = NotFound desc = ` + pull16 +
			`docker.io/library/nginx:nope: not found`,
			"image docker.io/library/nginx:nope not found in its registry; correct the name or the tag"},
		{`failed to pull and unpack image "docker.io/library/nosuch:1": failed to resolve reference "docker.io/library/nosuch:1": pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`,
			"pull access denied: the repository does not exist or is private; correct the image's name, or add imagePullSecrets"},
		{`failed to pull and unpack image "reg.example.com/a:1": failed to resolve reference "reg.example.com/a:1": failed to do request: Head "https://reg.example.com/v2/a/manifests/1": dial tcp: lookup reg.example.com on 10.0.0.1:53: no such host`,
			"cannot resolve the registry's name reg.example.com: no such host; correct the image's name, or check DNS on the " +
				"node"},
		{`failed to pull and unpack image "10.9.8.7:5000/a:1": failed to resolve reference "10.9.8.7:5000/a:1": failed to do request: Head "https://10.9.8.7:5000/v2/a/manifests/1": dial tcp 10.9.8.7:5000: connect: connection refused`,
			"cannot connect to the registry at 10.9.8.7:5000: connection refused; check the registry and the node's network"},
		{`failed to pull and unpack image "10.9.8.7:5000/a:1": failed to resolve reference "10.9.8.7:5000/a:1": failed to do request: Head "https://10.9.8.7:5000/v2/a/manifests/1": dial tcp 10.9.8.7:5000: i/o timeout`,
			"cannot connect to the registry at 10.9.8.7:5000: i/o timeout; check the registry and the node's network"},
		{`failed to pull and unpack image "127.0.0.1:5000/a:1": failed to resolve reference "127.0.0.1:5000/a:1": failed to do request: Head "https://127.0.0.1:5000/v2/a/manifests/1": http: server gave HTTP response to HTTPS client`,
			"the registry does not use TLS; configure it as an HTTP registry at the container runtime"},
		{`failed to resolve reference "reg.example.com/a:1": failed to do request: Head "https://reg.example.com/v2/a/manifests/1": tls: failed to verify certificate: x509: certificate signed by unknown authority`,
			"the registry's certificate is not trusted; add its CA to the container runtime's configuration"},
		{`failed to pull and unpack image "reg.example.com/a:1": failed to resolve reference "reg.example.com/a:1": unexpected status from HEAD request to https://reg.example.com/v2/a/manifests/1: 401 Unauthorized`,
			"the registry denies access (401 Unauthorized); add or correct imagePullSecrets"},
		{`failed to resolve reference "reg.example.com/a:1": unexpected status code [manifests 1]: 401 Unauthorized`,
			"the registry denies access (401 Unauthorized); add or correct imagePullSecrets"},
		{`failed to resolve reference "ghcr.io/x/a:1": failed to authorize: failed to fetch anonymous token: unexpected status from GET request to https://ghcr.io/token?scope=repository%3Ax%2Fa%3Apull&service=ghcr.io: 403 Forbidden`,
			"the registry denies access (403 Forbidden); check the image's name and imagePullSecrets"},
		{`failed to copy: httpReadSeeker: failed open: unexpected status code https://registry-1.docker.io/v2/library/nginx/manifests/sha256:abc: 429 Too Many Requests - Server message: toomanyrequests: You have reached your pull rate limit.`,
			"the registry limits the rate of pulls (429); wait, log in with imagePullSecrets, or use a mirror"},
		{`failed to pull and unpack image "docker.io/library/a:1": no match for platform in manifest: not found`,
			"the image does not exist for the architecture of this node; use another tag or image"},
		{`failed to pull and unpack image "docker.io/library/a:1": failed to extract layer sha256:abc: write /var/lib/containerd/x: no space left on device: unknown`,
			"no space left on device; free disk space on the node"},
		{create16 + `exec: "nginxx": executable file not found in $PATH: unknown`,
			`command "nginxx" not found in the image; correct command, or install the program in the image`},
		{create2 + `exec: "nginxx": executable file not found in $PATH: unknown`,
			`command "nginxx" not found in the image; correct command, or install the program in the image`},
		{"failed to create containerd task: failed to create shim task: OCI runtime create failed: crun: executable file " +
			"`nginxx` not found in $PATH: No such file or directory: unknown",
			`command "nginxx" not found in the image; correct command, or install the program in the image`},
		{create16 + `exec: "/run.sh": stat /run.sh: no such file or directory: unknown`,
			`command "/run.sh" not found in the image, or its interpreter is missing; correct command`},
		{create2 + `exec: "/run.sh": permission denied: unknown`,
			`command "/run.sh" is not executable in the image (permission denied); chmod +x it in the image, or start it with its interpreter`},
		{create16 +
			`error during container init: error mounting "/srv/conf" to rootfs at "/etc/app.conf": mount /srv/conf:/etc/app.conf (via /proc/self/fd/6), flags: 0x5000: not a directory: unknown: Are you trying to mount a directory onto a file (or vice-versa)? Check if the specified host path exists and is the expected type`,
			"cannot mount /srv/conf at /etc/app.conf: one is a file and the other a directory; correct mountPath, subPath or " +
				"the type of the hostPath"},
		{create16 + `chdir to cwd ("/app") set in config.json failed: no such file or directory: unknown`,
			"cannot use working directory /app: no such file or directory; correct workingDir"},
		{`failed to generate container "12ab" spec: failed to generate spec: no command specified`,
			"the image has no command; set command"},
		{`Failed to create pod sandbox: failed to setup network for sandbox "12ab": plugin type="bridge" name="podstead" failed (add): failed to allocate for range 0: no IP addresses available in range set: 10.88.0.1-10.88.0.254`,
			"no pod address is free: the network's address range is used up; delete pods or use a larger range"},
		{`Failed to create pod sandbox: failed to setup network for sandbox "12ab": plugin type="loopback" failed (add): failed to find plugin "loopback" in path [/usr/lib/cni]`,
			"network plugin loopback is not in /usr/lib/cni; install it, podstead check prints what to do"},
		{`Failed to create pod sandbox: failed to setup network for sandbox "12ab": cni plugin not initialized`,
			"the node has no pod network (CNI configuration missing); podstead check prints what to do"},
		{`Failed to create pod sandbox: failed to get sandbox image "registry.k8s.io/pause:3.6": failed to pull image "registry.k8s.io/pause:3.6": failed to pull and unpack image "registry.k8s.io/pause:3.6": failed to resolve reference "registry.k8s.io/pause:3.6": failed to do request: Head "https://registry.k8s.io/v2/pause/manifests/3.6": dial tcp: lookup registry.k8s.io on 10.255.255.53:53: no such host`,
			"cannot pull the sandbox image registry.k8s.io/pause:3.6: cannot resolve the registry's name registry.k8s.io: no " +
				"such host; podstead check prints how to load it"},
		{`Failed to create pod sandbox: failed to pull image "registry.k8s.io/pause:3.10.2": failed to pull and unpack image "registry.k8s.io/pause:3.10.2": failed to resolve image: failed to do request: Head "https://registry.k8s.io/v2/pause/manifests/3.10.2": dial tcp 10.9.8.7:443: connect: connection refused`,
			"cannot pull the sandbox image registry.k8s.io/pause:3.10.2: cannot connect to the registry at 10.9.8.7:443: " +
				"connection refused; podstead check prints how to load it"},
		{`Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox "12ab": failed to get sandbox image "a/pause:3": failed to pull image "a/pause:3": failed to pull and unpack image "a/pause:3": failed to resolve reference "a/pause:3": a/pause:3: not found`,
			"cannot pull the sandbox image a/pause:3: image a/pause:3 not found in its registry; podstead check prints how to " +
				"load it"},
		{`failed to get sandbox runtime: no runtime for "kata" is configured`,
			"runtime handler kata is not configured at the container runtime; correct runtimeClassName or the RuntimeClass"},
		{create2 + `setrlimits: operation not permitted: unknown`, "setrlimits: operation not permitted"},
		// Other programs than those that pull images have such errors too.
		{`Failed to create pod sandbox: failed to setup network for sandbox "12ab": plugin type="calico" failed (add): error getting ClusterInformation: Get "https://10.96.0.1:443/apis/crd.projectcalico.org/v1": dial tcp 10.96.0.1:443: connect: connection refused`,
			`error getting ClusterInformation: Get "https://10.96.0.1:443/apis/crd.projectcalico.org/v1": dial tcp 10.96.0.1:443: connect: connection refused`},
		{`Failed to create pod sandbox: failed to setup network for sandbox "12ab": plugin type="calico" failed (add): error getting ClusterInformation: tls: failed to verify certificate: x509: certificate signed by unknown authority`,
			`error getting ClusterInformation: tls: failed to verify certificate: x509: certificate signed by unknown authority`},
		{`failed to create containerd task: failed to create shim task: OCI runtime create failed: hook 0: dial tcp: lookup db.example.com on 10.0.0.1:53: no such host`,
			`hook 0: dial tcp: lookup db.example.com on 10.0.0.1:53: no such host`},
		{`Back-off pulling image "a:1": ErrImagePull: initializing source docker://10.9.8.7:5000/a:1: pinging container registry 10.9.8.7:5000: Get "https://10.9.8.7:5000/v2/": dial tcp 10.9.8.7:5000: connect: connection refused`,
			"cannot connect to the registry at 10.9.8.7:5000: connection refused; check the registry and the node's network"},
		// What is not such an error stays as it is.
		{"", ""},
		{"waiting for pod db to be ready", "waiting for pod db to be ready"},
		{"Error: cannot open the database", "cannot open the database"},
	} {
		if got := Cause(c.message); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.message, got, c.want)
		}
	}
}

// Messages about rollouts have errors in the middle.
func TestShorten(t *testing.T) {
	const notFound = `Back-off pulling image "reg.test/a:9": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image "reg.test/a:9": failed to resolve reference "reg.test/a:9": reg.test/a:9: not found`
	const short = "image reg.test/a:9 not found in its registry; correct the name or the tag"
	for message, want := range map[string]string{
		"": "",
		"not Ready yet; it is rolled back to revision 1a if it is not Ready in time": "not Ready yet; it is rolled back to " +
			"revision 1a if it is not Ready in time",
		"revision 2b is not in effect yet, the running one stays until it is prepared: ImagePullBackOff: " +
			notFound: "revision 2b is not in effect yet, the running one stays until it is prepared: ImagePullBackOff: " + short,
		`revision 2b failed and was rolled back: it was not Ready within 5s: container "a": ImagePullBackOff: ` + notFound +
			"; it is tried again when the manifest changes, or on request; revision 1a is not Ready either: " +
			notFound: `revision 2b failed and was rolled back: it was not Ready within 5s: container "a": ImagePullBackOff: ` +
			short + "; it is tried again when the manifest changes, or on request; revision 1a is not Ready either: " + short,
		"it is not in effect yet: ImagePullBackOff: failed to resolve image: reg.test/a:9: not found; the annotation " +
			"podstead.io/replace: kubelet replaces it at once": "it is not in effect yet: ImagePullBackOff: " + short +
			"; the annotation podstead.io/replace: kubelet replaces it at once",
		"revision 2b failed: " + notFound + "; the last good revision 1a replaces it when it is prepared: " +
			notFound: "revision 2b failed: " + short + "; the last good revision 1a replaces it when it is prepared: " + short,
	} {
		if got := Shorten(message); got != want {
			t.Errorf("%s\n got %s\nwant %s", message, got, want)
		}
	}
}

// Texts of any form are neither lost nor make it fail.
func FuzzCause(f *testing.F) {
	f.Add("Error: ")
	f.Add(`failed to do request: Head "x": `)
	f.Fuzz(func(t *testing.T, message string) {
		if strings.TrimSpace(message) != "" && Cause(message) == "" {
			t.Errorf("%q is lost", message)
		}
		if strings.TrimSpace(message) != "" && Shorten(message) == "" {
			t.Errorf("%q is lost in a longer text", message)
		}
	})
}

func TestProbeFailure(t *testing.T) {
	for text, want := range map[string]string{
		`Readiness probe failed: Get "http://10.88.0.5:8080/health": dial tcp 10.88.0.5:8080: connect: connection refused`: "Readiness probe failed: dial tcp 10.88.0.5:8080: connect: connection refused; nothing listens there: correct the probe's port, or let the program listen on all addresses",
		"Liveness probe failed: HTTP probe failed with statuscode: 404":                                                    "Liveness probe failed: HTTP probe failed with statuscode: 404; correct the probe's path",
		"Startup probe failed: not yet": "Startup probe failed: not yet",
		"Readiness probe failed: ":      "Readiness probe failed: ",
		"odd":                           "odd",
	} {
		if got := ProbeFailure(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}
