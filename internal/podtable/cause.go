package podtable

import (
	"strings"
)

// layers match what a runtime, a registry client or this daemon puts in front of an error: the
// steps that led to it. They are removed from the front, again and again.
var layers = []pattern{
	compile(`^(?:Back-off pulling image "[^"]*": )?ErrImagePull: `),
	compile(`^[Ff]ailed to pull image "[^"]*": `),
	compile(`^Failed to create pod sandbox: `),
	compile(`^Error: `),
	compile(`^rpc error: code = \w+ desc = `),
	compile(
		`^failed to (?:pull and unpack image|resolve reference|resolve image:|resolve image|copy|prepare extraction snapshot|start container|create container|setup network for sandbox|create sandbox|start sandbox) "[^"]*": `),
	compile(
		`^(?:failed to )?(?:create containerd (?:task|container)|create shim task|create shim|create containerd task|start sandbox container task|generate spec|apply OCI options|do request|authorize|fetch (?:oauth|anonymous) token|pull|unpack|copy|fetch manifest|extract layer \S+|start shim)(?: "[^"]*")?: `),
	compile(`^failed to resolve image: `),
	compile(`^failed to generate container "[^"]*" spec: `),
	compile(`^failed to mount \S+ on \S+: `),
	compile(`^(?:Head|Get|Post) "[^"]*": `),
	compile(`^OCI runtime (?:create|start) failed: `),
	compile(`^(?:runc|crun|youki)(?: create| start)? failed: `),
	compile(`^(?:crun|runc|youki): `),
	compile(`^unable to start container process: `),
	compile(`^error during container init: `),
	compile(`^(?:container_linux|process_linux|rootfs_linux|standard_init_linux|setns_init_linux)\.go:\d+: `),
	compile(
		`^(?:starting container process|container init|exec user process|rootfs_linux\.go:\d+|mounting \S+) caused:? `),
	compile(`^plugin type="[^"]*"(?: name="[^"]*")? failed \(add\): `),
}

// noise matches what reports nothing to a reader, anywhere in an error.
var noise = compile(`(?:: unknown)+$| \(via /proc/self/fd/\d+\)|, flags: 0x[0-9a-f]+(?:, data: \S+)?`)

// knownError is an error with a text that reports what is wrong and what to do. The text may refer
// to the groups of the pattern.
type knownError struct {
	pattern pattern
	text    string
}

// known are errors of all kinds.
var known = []knownError{
	{compile(`(?:^|\s)(\S+): no match for platform in manifest`),
		`image $1 does not exist for the architecture of this node; use another tag or image`},
	{compile(`no match for platform in manifest`),
		`the image does not exist for the architecture of this node; use another tag or image`},
	{compile(`^(\S+[:@]\S+): not found$`), `image $1 not found in its registry; correct the name or the tag`},
	{compile(`pull access denied, repository does not exist or may require authorization`),
		`pull access denied: the repository does not exist or is private; correct the image's name, or add imagePullSecrets`},
	{compile(`no space left on device`), `no space left on device; free disk space on the node`},
	{compile(`exec(?:utable file)?:? ["` + "`" + `]([^"` + "`" + `]+)["` + "`" +
		`]:? (?:executable file )?not found in \$PATH(?:: No such file or directory)?`),
		`command "$1" not found in the image; correct command, or install the program in the image`},
	{compile(`exec:? "?([^"\s:]+)"?: (?:stat \S+: )?no such file or directory`),
		`command "$1" not found in the image, or its interpreter is missing; correct command`},
	{compile(`exec:? "?([^"\s:]+)"?: permission denied`),
		`command "$1" is not executable in the image (permission denied); chmod +x it in the image, or start it with its interpreter`},
	{compile(`exec:? "?([^"\s:]+)"?: is a directory`), `command "$1" is a directory; correct command`},
	{compile(`exec format error`),
		`the program is built for another architecture, or is a script without #! line (exec format error); use an image for this node's architecture`},
	{compile(`no command specified`), `the image has no command; set command`},
	{compile(`(?:chdir to cwd|mkdir) \(?"?([^")\s]+)"?\)? set in config\.json failed: (.*)`),
		`cannot use working directory $1: $2; correct workingDir`},
	{compile(`error mounting "([^"]*)" to rootfs at "([^"]*)".*not a directory.*`),
		`cannot mount $1 at $2: one is a file and the other a directory; correct mountPath, subPath or the type of the hostPath`},
	{compile(`no IP addresses available in range set`),
		`no pod address is free: the network's address range is used up; delete pods or use a larger range`},
	{compile(`cni plugin not initialized|cni config uninitialized`),
		`the node has no pod network (CNI configuration missing); podstead check prints what to do`},
	{compile(`failed to find plugin "([^"]*)" in path \[?([^\]]*)\]?`),
		`network plugin $1 is not in $2; install it, podstead check prints what to do`},
	{compile(`no runtime for "([^"]*)" is configured`),
		`runtime handler $1 is not configured at the container runtime; correct runtimeClassName or the RuntimeClass`},
	{compile(`^Container image "([^"]*)" is not present with pull policy of Never$`),
		`image $1 is not on the node, and imagePullPolicy is Never; load it with podstead images load, or use IfNotPresent`},
	{compile(`^(.*hostPath \S+ does not exist, but its type is (Directory|File))$`),
		`$1; create it on the host, or use type ${2}OrCreate`},
	{compile(`unable to find user ([^:\s]+): no matching entries in passwd file`),
		`user $1 does not exist in the image; use a number in runAsUser, or another image`},
}

// ofPull matches errors of a pull of an image. Network plugins, hooks and others have errors of
// connections as well, about other servers than a registry.
var ofPull = compile(
	`(?i)\b(?:pull|pulling|image|registry|manifests?)\b|ErrImagePull|failed to resolve reference|httpReadSeeker`)

// knownOfPulls is known for errors of pulls alone.
var knownOfPulls = []knownError{
	{compile(`toomanyrequests|429 Too Many Requests`),
		`the registry limits the rate of pulls (429); wait, log in with imagePullSecrets, or use a mirror`},
	{compile(`401 Unauthorized`), `the registry denies access (401 Unauthorized); add or correct imagePullSecrets`},
	{compile(`403 Forbidden`), `the registry denies access (403 Forbidden); check the image's name and imagePullSecrets`},
	{compile(
		`lookup (\S+?)(?: on \S+)?: (no such host|server misbehaving|i/o timeout|Temporary failure in name resolution)`),
		`cannot resolve the registry's name $1: $2; correct the image's name, or check DNS on the node`},
	{compile(
		`dial tcp (\S+?)(?:->\S+)?: (?:connect: )?(connection refused|i/o timeout|no route to host|network is unreachable|connection timed out)`), `cannot connect to the registry at $1: $2; check the registry and the node's network`},
	{compile(`server gave HTTP response to HTTPS client`),
		`the registry does not use TLS; configure it as an HTTP registry at the container runtime`},
	{compile(`certificate signed by unknown authority`),
		`the registry's certificate is not trusted; add its CA to the container runtime's configuration`},
	{compile(`certificate has expired or is not yet valid`),
		`the registry's certificate has expired or is not yet valid; renew it, or correct the node's clock`},
}

// sandboxImage matches an error of the pull of the image that sandboxes need, which no pod names. containerd 2 does not
// call it that.
var sandboxImage = compile(`^Failed to create pod sandbox: .*?failed to (?:get sandbox|pull) image "([^"]*)": (.+)$`)

// sandboxImageCause returns the cause of an error of the pull of the sandbox image. What to do differs from the image
// of a container.
func sandboxImageCause(text string) (cause string, ok bool) {
	m := sandboxImage().FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	cause, _, _ = strings.Cut(Cause(m[2]), "; ")
	return "cannot pull the sandbox image " + m[1] + ": " + cause + "; podstead check prints how to load it", true
}

// Cause shortens an error of a container runtime or of a registry to what is wrong, with the
// remedy where the error is known. Other texts are returned as they are.
func Cause(message string) string {
	text := strings.TrimSpace(message)
	if cause, ok := sandboxImageCause(text); ok {
		return cause
	}
	for stripped := true; stripped; {
		stripped = false
		for _, layer := range layers {
			if rest := text[len(layer().FindString(text)):]; len(rest) < len(text) && rest != "" {
				text, stripped = rest, true
			}
		}
	}
	if short := noise().ReplaceAllString(text, ""); short != "" {
		text = short
	}
	if explained, ok := explain(known, text); ok {
		return explained
	}
	if ofPull().MatchString(message) {
		text, _ = explain(knownOfPulls, text)
	}
	return text
}

// inside matches where an error of a runtime or a registry begins in a longer text.
var inside = compile(
	`(?:Back-off pulling image "|ErrImagePull: |Failed to pull image "|Failed to create pod sandbox: |rpc error: code = |failed to (?:pull and unpack image|resolve reference|resolve image:|create containerd task|create shim task|generate container|setup network for sandbox) ?|OCI runtime (?:create|start) failed: )`)

// after matches what a message about a rollout has after such an error.
var after = compile(
	`; it is tried again when |; the last good revision |; revision \S+ is not Ready |; the annotation | when it is prepared: `)

// Shorten shortens the errors of a container runtime or of a registry in a message about a rollout
// to their causes, as Cause does for an error alone.
func Shorten(message string) string {
	var b strings.Builder
	for rest := message; ; {
		at := inside().FindStringIndex(rest)
		if at == nil {
			return b.String() + rest
		}
		end := len(rest)
		if next := after().FindStringIndex(rest[at[0]:]); next != nil {
			end = at[0] + next[0]
		}
		b.WriteString(rest[:at[0]] + Cause(rest[at[0]:end]))
		rest = rest[end:]
	}
}

// explain returns the text of the first of the errors that matches, or else the text itself.
func explain(errors []knownError, text string) (explained string, ok bool) {
	for _, e := range errors {
		if at := e.pattern().FindStringSubmatchIndex(text); at != nil {
			return string(e.pattern().ExpandString(nil, e.text, text, at)), true
		}
	}
	return text, false
}
