import { useState } from 'react'
import { useSession } from '../../session/session.ts'
import { Button } from '../../ui/button.tsx'
import { SelectField } from '../../ui/fields.tsx'
import { countText } from '../../ui/format.tsx'
import { allows, ifMatch, readRow, type Send, useSend } from './data.ts'
import { FieldControl } from './form.tsx'
import { InvalidText, valueFrom } from './form-values.ts'
import type { Field, Resource } from './model.ts'
import { removeRow, restoreRow } from './remove.ts'
import { type Id, RunDialog, type SelectedProps } from './run.tsx'

/** Actions on the selected rows. Each row is read first, and then changed with If-Match. */
export function BulkActions({ resource, ids, onDone }: SelectedProps) {
  const { title, can } = resource
  const session = useSession()
  const send = useSend()
  const [chosen, setChosen] = useState<'remove' | 'set' | null>(null)
  const close = () => setChosen(null)
  const what = `${countText(ids.length)} selected`
  return (
    <section className="notice row" aria-label="Selected rows">
      <strong>{what}</strong>
      {allows(session, can.patch) && allows(session, can.read) && (
        <Button isCompact onPress={() => setChosen('set')}>
          Set a field
        </Button>
      )}
      {allows(session, can.remove) && allows(session, can.read) && (
        <Button isCompact look="danger" onPress={() => setChosen('remove')}>
          Delete
        </Button>
      )}
      <Button isCompact look="plain" onPress={() => onDone([])}>
        Clear selection
      </Button>
      {chosen === 'remove' && (
        <RunDialog
          {...{ resource, ids, onClose: close, onDone }}
          title={`Delete ${countText(ids.length)} ${title.toLowerCase()}?`}
          action="Delete"
          isDangerous
          step={(id) => removeRow(send, resource, id)}
        >
          <p>
            {allows(session, can.restore)
              ? 'They can be restored from the deleted rows.'
              : 'This cannot be undone: the service keeps no deleted rows of this resource.'}
          </p>
        </RunDialog>
      )}
      {chosen === 'set' && <SetField {...{ resource, ids, onClose: close, onDone }} />}
    </section>
  )
}

function SetField({ resource, ids, onClose, onDone }: SelectedProps & { onClose: () => void }) {
  const send = useSend()
  const fields = resource.fields.filter(({ isReadOnly }) => !isReadOnly)
  const [field, setField] = useState<Field | undefined>(fields[0])
  const [text, setText] = useState('')
  if (field === undefined) return null
  const { value, error } = parsed(field, text)
  const choose = (name: string) => {
    setField(fields.find((one) => one.name === name))
    setText('')
  }
  return (
    <RunDialog
      {...{ resource, ids, onClose, onDone }}
      title={`Set a field of ${countText(ids.length)} rows`}
      action="Set"
      isDisabled={error !== undefined}
      step={(id) => setValue(send, resource, id, { [field.name]: value })}
    >
      <SelectField
        {...{ label: 'Field', value: field.name, onChange: choose }}
        options={fields.map(({ name, label }) => ({ value: name, label }))}
      />
      <FieldControl
        {...{ field: { ...field, label: 'Value' }, value: text, error, onChange: setText }}
        isNew={false}
        isRequired={false}
      />
    </RunDialog>
  )
}

function parsed({ schema }: Field, text: string): { value: unknown; error?: string } {
  try {
    return { value: valueFrom(schema, text) }
  } catch (error) {
    if (!(error instanceof InvalidText)) throw error
    return { value: null, error: error.message }
  }
}

async function setValue(send: Send, resource: Resource, id: Id, body: object) {
  const { etag } = await readRow(send, resource, id)
  await send('PATCH', `${resource.path}/${encodeURIComponent(id)}`, { body, headers: ifMatch(etag) })
}

interface RestoreManyProps extends SelectedProps {
  onClose: () => void
}

/** Restores the selected deleted rows, with progress and errors by row. */
export function RestoreMany({ resource, ids, onClose, onDone }: RestoreManyProps) {
  const send = useSend()
  return (
    <RunDialog
      {...{ resource, ids, onClose, onDone }}
      title={`Restore ${countText(ids.length)} rows?`}
      action="Restore"
      step={(id) => restoreRow(send, resource, id)}
    >
      <p>Each gets its id back. A row that refers to a deleted row can be restored only after that row.</p>
    </RunDialog>
  )
}
