import { Button } from '../../ui/button.tsx'
import { TextField } from '../../ui/fields.tsx'

export interface Label {
  /** Identifies the label while its key is being edited. */
  id: number
  key: string
  value: string
}

interface LabelFieldsProps {
  labels: readonly Label[]
  onChange: (labels: Label[]) => void
  error?: string | undefined
}

/** Fields for key-value pairs, with buttons that add and remove pairs. */
export function LabelFields({ labels, onChange, error }: LabelFieldsProps) {
  const change = (id: number, part: Partial<Label>) =>
    onChange(labels.map((label) => (label.id === id ? { ...label, ...part } : label)))
  const nextId = Math.max(-1, ...labels.map(({ id }) => id)) + 1
  return (
    <fieldset className="stack tight">
      <legend>Labels</legend>
      <div className="quiet small">
        What the access rules of the service know about the client, such as tenant: north
      </div>
      {error !== undefined && (
        <div className="notice wrong small" role="alert">
          Labels: {error}
        </div>
      )}
      {labels.map(({ id, key, value }, at) => (
        <div className="row" key={id}>
          <TextField
            label={`Key of label ${at + 1}`}
            isLabelHidden
            placeholder="Key"
            value={key}
            onChange={(text) => change(id, { key: text })}
          />
          <TextField
            label={`Value of label ${at + 1}`}
            isLabelHidden
            placeholder="Value"
            value={value}
            onChange={(text) => change(id, { value: text })}
          />
          <Button
            isCompact
            aria-label={`Remove label ${key === '' ? at + 1 : key}`}
            onPress={() => onChange(labels.filter((label) => label.id !== id))}
          >
            Remove
          </Button>
        </div>
      ))}
      <div className="row">
        <Button isCompact onPress={() => onChange([...labels, { id: nextId, key: '', value: '' }])}>
          Add a label
        </Button>
      </div>
    </fieldset>
  )
}
