package volume

// CheckFiles returns an error that names the objects and keys that the volumes of a pod
// refer to and that do not exist. It creates nothing.
func (v *Volumes) CheckFiles(req *Request) error {
	s := &setup{Volumes: v, req: req, group: groupOf(req.Pod)}
	var errs []error
	for i := range req.Pod.Spec.Volumes {
		vol := &req.Pod.Spec.Volumes[i]
		src := &vol.VolumeSource
		if !used(req.Pod, vol.Name) || src.ConfigMap == nil && src.Secret == nil && src.DownwardAPI == nil &&
			src.Projected == nil {
			continue
		}
		if _, err := s.resolvePayload(src); err != nil {
			errs = append(errs, setUpFailed(vol.Name, err))
		}
	}
	return joinErrors(errs)
}
