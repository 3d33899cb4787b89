package cli

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podstead/podstead/internal/podtable"
)

// mistake is a plausible mistake of a user, and what shows where one looks first.
type mistake struct {
	name string
	// files are the manifests; the mistake then shows in validate. The file is web.yaml if the
	// name is empty.
	files map[string]string
	// pod is the state that the mistake leads to; it then shows in get pods and status.
	pod *v1.Pod
	// event is the message of an event of the pod, as "REASON: MESSAGE".
	event string
	// log is the last line of the container's log.
	log string
	// want is the exact text: cause and remedy.
	want string
	// grade is 0 (nothing), 1 (a symptom), 2 (the cause) or 3 (the cause and the remedy).
	grade int
}

const (
	minMean     = 2.7
	minMistakes = 40
)

// webPod is a manifest with one container, and more fields below it.
func webPod(more string) map[string]string {
	return map[string]string{"": "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - name: " +
		"web\n    image: nginx:1.27\n" + more}
}

// webDocument is a manifest that is given in full.
func webDocument(text string) map[string]string { return map[string]string{"": text} }

// webState is a pod with one container in a state.
func webState(state v1.ContainerStatus, edit func(*v1.Pod, *v1.Container)) *v1.Pod {
	p := pod("web", func(p *v1.Pod) {
		p.UID = "web-uid"
		p.Spec.RestartPolicy = v1.RestartPolicyAlways
		p.Spec.Containers = []v1.Container{{Name: "web", Image: "nginx:1.27"}}
		state.Name = "web"
		p.Status.Phase = v1.PodPending
		p.Status.ContainerStatuses = []v1.ContainerStatus{state}
		if edit != nil {
			edit(p, &p.Spec.Containers[0])
		}
	})
	return &p
}

func webWaiting(reason, message string) *v1.Pod {
	return webState(waiting("web", reason, message), nil)
}

func crashed(t v1.ContainerStateTerminated, edit func(*v1.Pod, *v1.Container)) *v1.Pod {
	t.FinishedAt, t.StartedAt = metav1.Now(), metav1.NewTime(time.Now().Add(-time.Minute))
	state := waiting("web", "CrashLoopBackOff", "back-off 10s restarting failed container=web pod=web-n1_default(web-uid)")
	state.LastTerminationState.Terminated = &t
	return webState(state, edit)
}

func unready(edit func(*v1.Pod, *v1.Container)) *v1.Pod {
	state := running("web")
	state.Ready, state.State.Running.StartedAt = false, metav1.NewTime(time.Now().Add(-time.Minute))
	return webState(state, func(p *v1.Pod, c *v1.Container) {
		p.Status.Phase = v1.PodRunning
		edit(p, c)
	})
}

func httpProbe(port int, path string) *v1.Probe {
	return &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt(port), Path: path}}}
}

const (
	pullPrefix = `Failed to pull image "nginx:1.72": failed to pull and unpack image "docker.io/library/nginx:1.72": failed to resolve reference "docker.io/library/nginx:1.72": `
	runPrefix  = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create " +
		"failed: unable to start container process: error during container init: "
)

// mistakes are what people do when they write manifests for a node without a cluster.
func mistakes() []mistake {
	yes := true
	user := int64(101)
	return []mistake{
		// The text.
		{name: "wrong indentation", files: webDocument("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  " +
			"containers:\n  - name: web\n   image: nginx:1.27\n"), grade: 3,
			want: "web.yaml:7: is not valid YAML: did not find expected key; fix the indentation of this line, or a quote " +
				"before it"},
		{name: "tab", files: webDocument("apiVersion: v1\nkind: Pod\nmetadata:\n\tname: web\n"), grade: 3,
			want: "web.yaml:4: is not valid YAML: the line is indented with a tab; indent with spaces"},
		{name: "template placeholder", files: webPod("    env: [{name: A, value: {{ .Values.a }}}]\n"), grade: 3,
			want: "web.yaml:8: a mapping or a list is used as a field name; render the template if this is one, or quote a " +
				"value that begins with a brace"},
		{name: "placeholder of envsubst",
			files: webDocument("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: " +
				"\"${IMAGE}\"}]}\n"), grade: 3,
			want: `warning: web.yaml:4: Pod default/web: spec.containers[0].image: "${IMAGE}" has a placeholder that nothing replaces; write the image's name, or render the template (for example with envsubst)`},
		{name: "JSON with comments", files: map[string]string{"web.json": "{\n  // the web server\n  \"apiVersion\": \"v1\", \"kind\": \"Pod\"\n}\n"}, grade: 3,
			want: "web.json:2: is JSON with a comment; remove the comment: JSON has none; YAML has them, after #"},
		{name: "UTF-16 of an editor", files: webDocument("\xff\xfea\x00"), grade: 3,
			want: "web.yaml: is UTF-16 text; save it as UTF-8"},
		{name: "byte order mark and CRLF", files: webDocument("\ufeffapiVersion: v1\r\nkind: Pod\r\nmetadata: {name: " +
			"web}\r\nspec: {containers: [{name: web, image: a:1}]}\r\n"), grade: 3, want: ""},
		{name: "anchor that is not defined", files: webPod("    env: *common\n"), grade: 3,
			want: "web.yaml:8: is not valid YAML: unknown anchor 'common' referenced; use an anchor that is defined before " +
				"it, or quote the value"},
		{name: "key that YAML 1.1 reads as a boolean",
			files: webDocument("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: answers}\ndata:\n  n: \"no\"\n"), grade: 3,
			want: `warning: web.yaml:5: the key n is read as the boolean false (YAML 1.1); write it in quotes: "n"`},

		// Fields.
		{name: "typo in a field", files: webPod("    imagePulPolicy: Always\n"), grade: 3,
			want: `web.yaml:8: Pod default/web: spec.containers[0].imagePulPolicy: unknown field; did you mean "imagePullPolicy"?`},
		{name: "field at the wrong level", files: webPod("  ports: [{containerPort: 80}]\n"), grade: 3,
			want: `web.yaml:8: Pod default/web: spec.ports: unknown field; "ports" belongs in spec.containers[]`},
		{name: "wrong type", files: webPod("    ports: [{containerPort: \"80\"}]\n"), grade: 3,
			want: `web.yaml:8: Pod default/web: spec.containers[0].ports[0].containerPort: is the string "80"; must be a whole number, without quotes`},
		{name: "command that is a string", files: webPod("    command: nginx -g daemon\n"), grade: 3,
			want: `web.yaml:8: Pod default/web: spec.containers[0].command: is the string "nginx -g daemon"; must be a list: put a dash before each item`},
		{name: "value of a variable that is a number", files: webPod("    env: [{name: PORT, value: 8080}]\n"), grade: 3,
			want: `web.yaml:8: Pod default/web: spec.containers[0].env[0].value: is the number 8080; must be a string: write "8080" in quotes`},
		{name: "missing image", files: webDocument("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: " +
			"[{name: web}]}\n"), grade: 3,
			want: "web.yaml:4: Pod default/web: spec.containers[0].image: is missing; a container needs an image, such as " +
				"registry.example.com/web:1.0"},
		{name: "bad quantity", files: webPod("    resources: {limits: {memory: 512MB}}\n"), grade: 3,
			want: `web.yaml:8: Pod default/web: spec.containers[0].resources.limits[memory]: is the string "512MB"; must be a quantity: a number that may have a suffix, such as 0.5, 100m, 128Mi or 1Gi`},
		{name: "limit below the request",
			files: webPod("    resources: {limits: {memory: 64Mi}, requests: {memory: 128Mi}}\n"), grade: 3,
			want: `web.yaml:8: Pod default/web: spec.containers[0].resources.requests[memory]: "128Mi" is not valid; must be at most the limit, 64Mi`},
		{name: "mount of an unknown volume",
			files: webPod("    volumeMounts: [{name: dat, mountPath: /d}]\n  volumes: [{name: data, emptyDir: {}}]\n"), grade: 3,
			want: `web.yaml:8: Pod default/web: spec.containers[0].volumeMounts[0].name: "dat" is not declared; must be the name of a volume in spec.volumes`},
		{name: "relative hostPath", files: webPod("  volumes: [{name: data, hostPath: {path: ./data}}]\n"), grade: 3,
			want: `warning: web.yaml:8: Pod default/web: spec.volumes[0].hostPath.path: "./data" is a relative path; must be an absolute path of the host, such as /srv/data`},
		{name: "name with capitals", files: webDocument("apiVersion: v1\nkind: Pod\nmetadata: {name: Web}\nspec: " +
			"{containers: [{name: web, image: a:1}]}\n"), grade: 3,
			want: `web.yaml:3: Pod default/Web: metadata.name: "Web" is not valid; a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com')`},
		{name: "image that is a URL", files: webDocument("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: " +
			"{containers: [{name: web, image: https://reg.example.com/web}]}\n"), grade: 3,
			want: `warning: web.yaml:4: Pod default/web: spec.containers[0].image: "https://reg.example.com/web" is a URL; write the image without the scheme: reg.example.com/web`},
		{name: "port name that is not declared", files: webPod("    livenessProbe: {httpGet: {port: http}}\n"), grade: 3,
			want: `warning: web.yaml:8: Pod default/web: spec.containers[0].livenessProbe.httpGet.port: container "web" has no port named "http"; give one of its ports that name, or use the number`},
		{name: "root user with runAsNonRoot", files: webPod("    securityContext: {runAsNonRoot: true, runAsUser: 0}\n"),
			grade: 3,
			want: "warning: web.yaml:8: Pod default/web: spec.containers[0].securityContext.runAsUser: 0 is root, and " +
				"runAsNonRoot: true does not let the container start as root; set another user or runAsNonRoot: false"},
		{name: "nodeName of another node", files: webPod("  nodeName: node7\n"), grade: 3,
			want: `warning: web.yaml:8: Pod default/web: spec.nodeName: "node7" is another node and has no effect: the pod runs on n1; remove the field; the node that reads a manifest runs it`},
		{name: "Secret that is not base64",
			files: webDocument("apiVersion: v1\nkind: Secret\nmetadata: {name: login}\ndata: {password: hunter2!}\n"), grade: 3,
			want: "web.yaml:4: Secret default/login: data[password]: is a string; must be a base64-encoded string; put plain " +
				"text under stringData"},

		// Other files in the directory.
		{name: "Deployment", files: webDocument("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {}\n"),
			grade: 3,
			want:  `web.yaml:2: kind: "Deployment" is not supported; convert it with podstead convert, or copy its pod template into a Pod. Supported kinds: Pod, ConfigMap, Secret, PersistentVolumeClaim, Service, PriorityClass, RuntimeClass, PersistentVolume, StorageClass, PodList or List`},
		{name: "Job", files: webDocument("apiVersion: batch/v1\nkind: Job\nmetadata: {name: web}\nspec: {}\n"), grade: 3,
			want: `web.yaml:2: kind: "Job" is not supported; convert it with podstead convert, or copy its pod template into a Pod, with restartPolicy: OnFailure`},
		{name: "Ingress", files: webDocument("apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: " +
			"web}\nspec: {}\n"), grade: 3,
			want: `web.yaml:2: kind: "Ingress" is not supported; run a reverse proxy as a Pod with hostPort; remove the document`},
		{name: "custom resource", files: webDocument("apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: " +
			"web}\nspec: {}\n"), grade: 3,
			want: `web.yaml:2: kind: "Certificate" is not supported; it is a custom resource, for which a cluster with its controller is needed; remove the document`},
		{name: "Compose file", files: map[string]string{"compose.yaml": "name: shop\nservices:\n  web:\n    image: nginx\n  db:\n    build: .\n"}, grade: 3,
			want: "compose.yaml:2: is a Compose file and not a manifest; convert it with podstead convert, or write each " +
				"service as a Pod"},
		{name: "Quadlet unit", files: webDocument("# web\n[Unit]\nDescription=web\n[Container]\nImage=nginx\n"), grade: 3,
			want: "web.yaml:2: is a systemd or Quadlet unit and not a manifest; convert it with podstead convert, or move it " +
				"to /etc/containers/systemd and run it with Podman"},
		{name: "files that are not read",
			files: map[string]string{"": webPod("")[""], "web.yaml.bak": "", "notes.txt": "", "staging/db.yaml": ""}, grade: 3,
			want: "warning: .: 3 entries are not read: notes.txt, staging, web.yaml.bak; manifests end in .yaml, .yml or " +
				".json, and are not in subdirectories"},
		{name: "one name in two files", files: map[string]string{"": webPod("")[""], "web2.yaml": webPod("")[""]}, grade: 3,
			want: "web2.yaml: Pod default/web: metadata.name: duplicate pod name, also used in web.yaml; rename one of the pods"},
		{name: "one hostPort in two pods",
			files: map[string]string{"": webPod("    ports: [{containerPort: 80, hostPort: 8080}]\n")[""],
				"web2.yaml": strings.Replace(webPod("    ports: [{containerPort: 80, hostPort: 8080}]\n")[""], "name: web}",
					"name: web2}", 1)}, grade: 3,
			want: "warning: web2.yaml: Pod default/web2: needs port 8080 of the host (TCP on 0.0.0.0), which pod default/web " +
				"in web.yaml needs too; use another hostPort or hostIP; only one of the two pods runs at a time"},
		{name: "missing ConfigMap", files: webPod("    envFrom: [{configMapRef: {name: settings}}]\n"), grade: 3,
			want: "warning: web.yaml: Pod default/web: requires ConfigMap default/settings, which no given manifest declares; " +
				"correct the name, add the object, or mark the reference as optional; the pod waits for it"},
		{name: "missing key", files: map[string]string{"": webPod("    env: [{name: A, valueFrom: {configMapKeyRef: {name: " +
			"settings, key: colour}}}]\n")[""],
			"settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {color: red}\n"}, grade: 3,
			want: "warning: web.yaml: Pod default/web: requires the key colour of ConfigMap default/settings, which does not " +
				"have it; it has color; or mark the reference as optional; the pod waits for it"},
		{name: "subPath that is no key", files: map[string]string{"": webPod("    volumeMounts: [{name: settings, mountPath: " +
			"/app.conf, subPath: app.cnf}]\n  volumes: [{name: settings, configMap: {name: settings}}]\n")[""],
			"settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {app.conf: a}\n"}, grade: 3,
			want: `warning: web.yaml: Pod default/web: spec.containers[0].volumeMounts[0].subPath: "app.cnf" is no file of volume "settings", which is made from ConfigMap default/settings; the volume has app.conf; the container waits for it`},

		{name: "container for debugging in a manifest",
			files: webPod("  ephemeralContainers: [{name: debug, image: busybox}]\n"), grade: 3,
			want: "web.yaml:8: Pod default/web: spec.ephemeralContainers: can only be added to a running pod; remove the " +
				"field, and use podstead debug"},
		{name: "pods that wait for each other", files: map[string]string{
			"": strings.Replace(webPod("")[""], "{name: web}", "{name: web, annotations: {podstead.io/depends-on: db}}",
				1),
			"db.yaml": strings.NewReplacer("{name: web}",
				"{name: db, annotations: {podstead.io/depends-on: web}}").Replace(webPod("")[""])}, grade: 3,
			want: `db.yaml: Pod default/db: metadata.annotations[podstead.io/depends-on]: "web" makes the pod depend on itself through default/db ▸ default/web ▸ default/db; remove one of these dependencies`},

		// Images.
		{name: "tag that does not exist",
			pod: webWaiting("ErrImagePull", pullPrefix+"docker.io/library/nginx:1.72: not found"), grade: 3,
			want: "image docker.io/library/nginx:1.72 not found in its registry; correct the name or the tag"},
		{name: "repository that does not exist",
			pod: webWaiting("ImagePullBackOff",
				`Back-off pulling image "ngnix": ErrImagePull: failed to pull and unpack image "docker.io/library/ngnix:latest": failed to resolve reference "docker.io/library/ngnix:latest": pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`), grade: 3,
			want: "pull access denied: the repository does not exist or is private; correct the image's name, or add " +
				"imagePullSecrets"},
		{name: "registry that does not exist",
			pod: webWaiting("ErrImagePull",
				`Failed to pull image "reg.exmaple.com/web": failed to pull and unpack image "reg.exmaple.com/web:latest": failed to resolve reference "reg.exmaple.com/web:latest": failed to do request: Head "https://reg.exmaple.com/v2/web/manifests/latest": dial tcp: lookup reg.exmaple.com on 10.0.0.1:53: no such host`), grade: 3,
			want: "cannot resolve the registry's name reg.exmaple.com: no such host; correct the image's name, or check DNS " +
				"on the node"},
		{name: "local image with policy Never",
			pod:   webWaiting("ErrImageNeverPull", `Container image "web:latest" is not present with pull policy of Never`),
			grade: 3,
			want: "image web:latest is not on the node, and imagePullPolicy is Never; load it with podstead images load, or " +
				"use IfNotPresent"},

		// Start.
		{name: "misspelt command", pod: webWaiting("RunContainerError",
			runPrefix+`exec: "ngnix": executable file not found in $PATH: unknown`), grade: 3,
			want: `command "ngnix" not found in the image; correct command, or install the program in the image`},
		{name: "script that is not executable",
			pod: webWaiting("RunContainerError", runPrefix+`exec: "/run.sh": permission denied: unknown`), grade: 3,
			want: `command "/run.sh" is not executable in the image (permission denied); chmod +x it in the image, or start it with its interpreter`},
		{name: "directory mounted on a file",
			pod: webWaiting("RunContainerError",
				runPrefix+
					`error mounting "/srv/conf" to rootfs at "/etc/nginx/nginx.conf": mount /srv/conf:/etc/nginx/nginx.conf (via /proc/self/fd/6), flags: 0x5000: not a directory: unknown: Are you trying to mount a directory onto a file (or vice-versa)? Check if the specified host path exists and is the expected type`), grade: 3,
			want: "cannot mount /srv/conf at /etc/nginx/nginx.conf: one is a file and the other a directory; correct " +
				"mountPath, subPath or the type of the hostPath"},
		{name: "root image with runAsNonRoot",
			pod: webWaiting("CreateContainerConfigError",
				"runAsNonRoot is true and the image runs as root; set runAsUser, or take an image with another user"), grade: 3,
			want: "runAsNonRoot is true and the image runs as root; set runAsUser, or take an image with another user"},
		{name: "hostPath that does not exist",
			pod:   webWaiting("FailedMount", `volume "data": hostPath /srv/data does not exist, but its type is Directory`),
			grade: 3,
			want:  `volume "data": hostPath /srv/data does not exist, but its type is Directory; create it on the host, or use type DirectoryOrCreate`},
		{name: "node without a network",
			pod: webWaiting("CreatePodSandboxError",
				`Failed to create pod sandbox: failed to setup network for sandbox "12ab34": cni plugin not initialized`), grade: 3,
			want: "the node has no pod network (CNI configuration missing); podstead check prints what to do"},

		// The program.
		{name: "program that fails", pod: crashed(v1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}, nil),
			log: "cannot open the database", grade: 2,
			want: "web ended with code 1: cannot open the database; back-off 10s"},
		{name: "program that ends by itself",
			pod: crashed(v1.ContainerStateTerminated{ExitCode: 0, Reason: "Completed"}, nil), grade: 3,
			want: "web ended with code 0; if it is to end by itself, use restartPolicy OnFailure or Never; back-off 10s"},
		{name: "memory limit that is too low",
			pod: crashed(v1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}, func(_ *v1.Pod, c *v1.Container) {
				c.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")}
			}), grade: 3, want: "web ended with code 137 (OOMKilled): it exceeded its memory limit of 64Mi; raise " +
				"resources.limits.memory, or let the program use less; back-off 10s"},
		{name: "memory limit that is too low for a process of a shell",
			pod: crashed(v1.ContainerStateTerminated{Reason: "OOMKilled"}, func(_ *v1.Pod, c *v1.Container) {
				c.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")}
			}), grade: 3, want: "a process of web was killed (OOMKilled): it exceeded its memory limit of 64Mi; raise " +
				"resources.limits.memory, or let the program use less; back-off 10s"},
		{name: "write on a read-only root file system",
			pod: crashed(v1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}, func(_ *v1.Pod, c *v1.Container) {
				c.SecurityContext = &v1.SecurityContext{ReadOnlyRootFilesystem: &yes}
			}), log: `mkdir() "/var/cache/nginx/client_temp" failed (30: Read-only file system)`, grade: 3,
			want: `web ended with code 1: mkdir() "/var/cache/nginx/client_temp" failed (30: Read-only file system); readOnlyRootFilesystem is true: mount an emptyDir volume where the program writes; back-off 10s`},
		{name: "user without access", pod: crashed(v1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"},
			func(p *v1.Pod, _ *v1.Container) {
				p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: &user}
			}), log: "open /data/db: Permission denied", grade: 3,
			want: "web ended with code 1: open /data/db: Permission denied; the container does not run as root: give its user " +
				"access (fsGroup for volumes), or change runAsUser; back-off 10s"},
		{name: "port of the host in use",
			pod: crashed(v1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}, func(p *v1.Pod, _ *v1.Container) {
				p.Spec.HostNetwork = true
			}), log: "bind() to 0.0.0.0:80 failed (98: Address already in use)", grade: 3,
			want: "web ended with code 1: bind() to 0.0.0.0:80 failed (98: Address already in use); the pod uses the host " +
				"network, and a process of the host has the port: stop it, or change the port; back-off 10s"},
		{name: "image of another architecture",
			pod: crashed(v1.ContainerStateTerminated{ExitCode: 255, Reason: "Error"}, nil),
			log: "exec /docker-entrypoint.sh: exec format error", grade: 3,
			want: "web ended with code 255: exec /docker-entrypoint.sh: exec format error; the program is built for another " +
				"architecture: use an image for that of this node; back-off 10s"},

		// Probes.
		{name: "readiness probe on a wrong port",
			pod:   unready(func(_ *v1.Pod, c *v1.Container) { c.ReadinessProbe = httpProbe(8080, "/") }),
			event: `Unhealthy: Readiness probe failed: Get "http://10.88.0.5:8080/": dial tcp 10.88.0.5:8080: connect: connection refused`, grade: 3,
			want: "Readiness probe failed: dial tcp 10.88.0.5:8080: connect: connection refused; nothing listens there: " +
				"correct the probe's port, or let the program listen on all addresses"},
		{name: "readiness probe of a wrong path",
			pod:   unready(func(_ *v1.Pod, c *v1.Container) { c.ReadinessProbe = httpProbe(80, "/healthy") }),
			event: "Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 404", grade: 3,
			want: "Readiness probe failed: HTTP probe failed with statuscode: 404; correct the probe's path"},
		{name: "liveness probe of a wrong path",
			pod: crashed(v1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"}, func(_ *v1.Pod, c *v1.Container) {
				c.LivenessProbe = httpProbe(80, "/healthy")
			}), event: "Unhealthy: Liveness probe failed: HTTP probe failed with statuscode: 404", grade: 3,
			want: "web was restarted: Liveness probe failed: HTTP probe failed with statuscode: 404; correct the probe's path"},
	}
}

// hostPortTaken is a pod that runs, with a host port on which this process listens, and what is shown.
func hostPortTaken(t *testing.T) mistake {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	port := l.Addr().(*net.TCPAddr).Port
	name, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	state := running("web")
	return mistake{
		name: "hostPort of a process of the host", grade: 3,
		pod: webState(state, func(p *v1.Pod, c *v1.Container) {
			p.Status.Phase = v1.PodRunning
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
			c.Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: int32(port)}}
		}),
		want: fmt.Sprintf("hostPort %d (TCP on 0.0.0.0) is taken from process %s (PID %d) of the host, which listens on it "+
			"and gets no new connections while the pod runs; use another hostPort, or stop the process",
			port, strings.TrimSpace(string(name)), os.Getpid()),
	}
}

// The mistakes that people make show their cause and its remedy where one looks first.
func TestMistakes(t *testing.T) {
	t.Parallel()
	all, sum := append(mistakes(), hostPortTaken(t)), 0
	for _, m := range all {
		sum += m.grade
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if m.files != nil {
				m.testValidate(t)
			} else {
				m.testPods(t)
			}
		})
	}
	if len(all) < minMistakes {
		t.Errorf("%d mistakes, want at least %d", len(all), minMistakes)
	}
	if mean := float64(sum) / float64(len(all)); mean < minMean {
		t.Errorf("the mean of the grades is %.2f, must be at least %.1f", mean, minMean)
	}
}

func (m mistake) testValidate(t *testing.T) {
	dir := t.TempDir()
	for name, text := range m.files {
		if name == "" {
			name = "web.yaml"
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, errs, err := execute(t, "", "validate", "--hostname-override", "n1", dir)
	warns := m.want == "" || strings.HasPrefix(m.want, "warning: ")
	if (err == nil) != warns {
		t.Errorf("validate: %v", err)
	}
	got := strings.ReplaceAll(strings.ReplaceAll(errs, dir+"/", ""), dir+":", ".:")
	if got = strings.TrimSuffix(got, "\n"); got != m.want {
		t.Errorf("validate printed\n%s\nwant\n%s", got, m.want)
	}
}

func (m mistake) testPods(t *testing.T) {
	d := newFakeDaemon(t, *m.pod)
	if reason, message, ok := strings.Cut(m.event, ": "); ok {
		about := v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: m.pod.Name, UID: m.pod.UID}
		for i, e := range []v1.Event{{Reason: reason, Message: message},
			{Reason: "Killing", Message: "Container web failed liveness probe, will be restarted"}} {
			e.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: m.pod.Name + "." + string(rune('a'+i))}
			e.InvolvedObject, e.Type, e.LastTimestamp = about, "Warning", metav1.Now()
			d.events = append(d.events, e)
		}
	}
	d.routes["GET /containerLogs/{namespace}/{pod}/{container}"] = func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = w.Write([]byte(m.log + "\n"))
	}
	d.start()
	_, errs, err := execute(t, "", "get", "pods", "--api-socket", d.socket)
	if want := "pod: default/web: " + m.want + "\n"; err != nil || errs != want {
		t.Errorf("get pods printed %v\n%swant\n%s", err, errs, want)
	}
	for _, args := range [][]string{{"get", "pods", "-o", "wide"}, {"status"}} {
		// status has the causes of pods that run in lines of their own.
		out, _, _ := execute(t, "", append(args, "--api-socket", d.socket)...)
		if !strings.Contains(out, "   "+m.want+"\n") && !strings.Contains(out, "default/web: "+m.want+"\n") {
			t.Errorf("%s does not print %s:\n%s", strings.Join(args, " "), m.want, out)
		}
	}
	if podtable.State(m.pod) == "Completed" || m.pod.Status.Phase == v1.PodFailed || len(m.pod.Status.Conditions) > 0 {
		return // it is ready, or a wait ends at once
	}
	if _, errs, err := execute(t, "", "wait", "web", "--timeout=0", "--api-socket", d.socket); Code(err) != ExitTimeout ||
		!strings.Contains(err.Error(), m.want) {
		t.Errorf("wait ended with %v\n%swant %s", err, errs, m.want)
	}
}
