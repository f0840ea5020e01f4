import { Button } from './button.tsx'
import { toast } from './toast.tsx'

/** A button that copies text to the clipboard. */
export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => toast('Copied'),
      () => toast('The browser did not allow copying; select the text instead'),
    )
  return (
    <Button isCompact onPress={() => void copy()}>
      {label}
    </Button>
  )
}

/** A secret that the service shows only once. */
export function SecretOnce({ label, secret }: { label: string; secret: string }) {
  return (
    <div className="notice warn stack tight">
      <p>
        <strong>{label}</strong>: copy it now; it is not shown again.
      </p>
      <div className="row">
        <code>{secret}</code>
        <CopyButton text={secret} />
      </div>
    </div>
  )
}
