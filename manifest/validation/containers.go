package validation

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	v1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// maxRestartRules is the API's limit on restartPolicyRules, maxExitCodes on the
// exit codes of one rule.
const (
	maxRestartRules = 20
	maxExitCodes    = 255
)

// containers validates the containers of all kinds. A duplicate name is
// reported at the later container, where init containers count as later than
// regular ones.
func (v *validator) containers(spec *field.Path) {
	const unique = "the containers of a pod need unique names, including init containers"
	names := map[string]bool{}
	ports := map[string]bool{}
	if len(v.spec.Containers) == 0 {
		v.required(spec.Child("containers"), "a pod needs at least one container with a name and an image")
	}
	for i := range v.spec.Containers {
		c, path := &v.spec.Containers[i], spec.Child("containers").Index(i)
		v.container(path, c)
		if names[c.Name] {
			v.duplicate(path.Child("name"), c.Name, unique)
		}
		names[c.Name] = true
		v.lifecycle(path.Child("lifecycle"), c.Lifecycle)
		v.probes(path, c)
		v.containerRestart(path, c)
		v.hostPorts(path.Child("ports"), c.Ports, ports)
	}
	for i := range v.spec.InitContainers {
		c, path := &v.spec.InitContainers[i], spec.Child("initContainers").Index(i)
		v.container(path, c)
		if names[c.Name] {
			v.duplicate(path.Child("name"), c.Name, unique)
		}
		if c.Name != "" {
			names[c.Name] = true
		}
		v.initContainer(path, c)
		// Init containers run one after the other, so that they can share a
		// host port.
		v.hostPorts(path.Child("ports"), c.Ports, map[string]bool{})
	}
	if len(v.spec.EphemeralContainers) > 0 {
		v.forbidden(spec.Child("ephemeralContainers"),
			"ephemeral containers can only be added to a running pod; remove the field, and use podstead debug")
	}
}

// container validates what all kinds of containers have in common.
func (v *validator) container(path *field.Path, c *v1.Container) {
	if v.requireSet(path.Child("name"), c.Name, "a container needs a name, such as web") {
		v.dnsLabel(path.Child("name"), c.Name)
	}
	if v.requireSet(path.Child("image"), c.Image, "a container needs an image, such as registry.example.com/web:1.0") &&
		strings.TrimSpace(c.Image) != c.Image {
		v.invalid(path.Child("image"), c.Image, "must not begin or end with white space")
	}
	requiredOneOf(v, path.Child("imagePullPolicy"), c.ImagePullPolicy, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)
	requiredOneOf(v, path.Child("terminationMessagePolicy"), c.TerminationMessagePolicy,
		v1.TerminationMessageReadFile, v1.TerminationMessageFallbackToLogsOnError)
	v.containerPorts(path.Child("ports"), c.Ports)
	v.env(path.Child("env"), c.Env)
	v.envFrom(path.Child("envFrom"), c.EnvFrom)
	v.volumeMounts(path.Child("volumeMounts"), c)
	v.volumeDevices(path.Child("volumeDevices"), c)
	v.containerResources(path.Child("resources"), &c.Resources)
	v.resizePolicy(path.Child("resizePolicy"), c.ResizePolicy)
	v.containerSecurity(path.Child("securityContext"), c.SecurityContext)
}

func (v *validator) initContainer(path *field.Path, c *v1.Container) {
	v.containerRestart(path, c)
	if podinfo.IsSidecar(c) {
		v.lifecycle(path.Child("lifecycle"), c.Lifecycle)
		v.probes(path, c)
		return
	}
	const detail = "only a sidecar (an init container with restartPolicy: Always) can have it; remove the field"
	if c.Lifecycle != nil {
		v.forbidden(path.Child("lifecycle"), detail)
	}
	if c.LivenessProbe != nil {
		v.forbidden(path.Child("livenessProbe"), detail)
	}
	if c.ReadinessProbe != nil {
		v.forbidden(path.Child("readinessProbe"), detail)
	}
	if c.StartupProbe != nil {
		v.forbidden(path.Child("startupProbe"), detail)
	}
	for i, policy := range c.ResizePolicy {
		if policy.RestartPolicy == v1.RestartContainer {
			v.invalid(path.Child("resizePolicy").Index(i).Child("restartPolicy"), policy.RestartPolicy,
				"must be NotRequired for an init container that is not a sidecar")
		}
	}
}

func (v *validator) containerRestart(path *field.Path, c *v1.Container) {
	if c.RestartPolicy != nil {
		oneOf(v, path.Child("restartPolicy"), *c.RestartPolicy,
			v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyNever)
	} else if len(c.RestartPolicyRules) > 0 {
		v.required(path.Child("restartPolicy"), "restartPolicyRules need the restartPolicy of the container as well")
	}
	rules := path.Child("restartPolicyRules")
	if len(c.RestartPolicyRules) > maxRestartRules {
		v.add(field.TooMany(rules, len(c.RestartPolicyRules), maxRestartRules))
	}
	for i, rule := range c.RestartPolicyRules {
		at := rules.Index(i)
		oneOf(v, at.Child("action"), rule.Action,
			v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers)
		if rule.ExitCodes == nil {
			v.required(at.Child("exitCodes"),
				"must be the exit codes that the rule applies to: an operator (In or NotIn) and values")
			continue
		}
		oneOf(v, at.Child("exitCodes", "operator"), rule.ExitCodes.Operator,
			v1.ContainerRestartRuleOnExitCodesOpIn, v1.ContainerRestartRuleOnExitCodesOpNotIn)
		if n := len(rule.ExitCodes.Values); n > maxExitCodes {
			v.add(field.TooMany(at.Child("exitCodes", "values"), n, maxExitCodes))
		}
	}
}

func (v *validator) resizePolicy(path *field.Path, policies []v1.ContainerResizePolicy) {
	seen := map[v1.ResourceName]bool{}
	for i, policy := range policies {
		at := path.Index(i)
		if seen[policy.ResourceName] {
			v.duplicate(at, policy.ResourceName, "each resource can occur only once")
		}
		seen[policy.ResourceName] = true
		requiredOneOf(v, at.Child("resourceName"), policy.ResourceName, v1.ResourceCPU, v1.ResourceMemory)
		requiredOneOf(v, at.Child("restartPolicy"), policy.RestartPolicy, v1.NotRequired, v1.RestartContainer)
		if v.spec.RestartPolicy == v1.RestartPolicyNever && policy.RestartPolicy != v1.NotRequired {
			v.invalid(at.Child("restartPolicy"), policy.RestartPolicy, "must be NotRequired in a pod with restartPolicy: Never")
		}
	}
}

func (v *validator) containerPorts(path *field.Path, ports []v1.ContainerPort) {
	names := map[string]bool{}
	for i, port := range ports {
		at := path.Index(i)
		if port.Name != "" {
			messages := utilvalidation.IsValidPortName(port.Name)
			v.rules(at.Child("name"), port.Name, messages)
			if len(messages) == 0 && names[port.Name] {
				v.duplicate(at.Child("name"), port.Name, "the ports of a container need unique names")
			}
			names[port.Name] = true
		}
		if port.ContainerPort == 0 {
			v.required(at.Child("containerPort"), "must be the port the container listens on, between 1 and 65535")
		} else {
			v.rules(at.Child("containerPort"), port.ContainerPort, utilvalidation.IsValidPortNum(int(port.ContainerPort)))
		}
		if port.HostPort != 0 {
			v.rules(at.Child("hostPort"), port.HostPort, utilvalidation.IsValidPortNum(int(port.HostPort)))
		}
		if port.HostIP != "" {
			if _, err := netip.ParseAddr(port.HostIP); err != nil {
				v.invalid(at.Child("hostIP"), port.HostIP,
					"must be an IP address of this host, such as 127.0.0.1, or omitted for all addresses")
			}
		}
		requiredOneOf(v, at.Child("protocol"), port.Protocol, v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP)
	}
}

// hostPorts finds host ports that are used twice; taken is shared by containers
// that run together.
func (v *validator) hostPorts(path *field.Path, ports []v1.ContainerPort, taken map[string]bool) {
	for i, port := range ports {
		if port.HostPort == 0 {
			continue
		}
		key := fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort)
		if taken[key] {
			v.duplicate(path.Index(i).Child("hostPort"), hostPortText(port),
				"a host port can be used only once per protocol and address")
		}
		taken[key] = true
	}
}

// hostPortText formats a host port.
func hostPortText(port v1.ContainerPort) string {
	text := fmt.Sprint(port.HostPort)
	if port.HostIP != "" {
		text = net.JoinHostPort(port.HostIP, text)
	}
	return text + "/" + string(port.Protocol)
}
