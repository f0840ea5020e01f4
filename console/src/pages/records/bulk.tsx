import { useState } from 'react'
import { ApiError } from '../../api/client.ts'
import { useSession } from '../../session/session.ts'
import { Button } from '../../ui/button.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { SelectField } from '../../ui/fields.tsx'
import { countText } from '../../ui/format.tsx'
import { messageOf } from '../../ui/states.tsx'
import { useCache } from './cache.ts'
import { allows, ifMatch, readRow, type Send, useSend } from './data.ts'
import { FieldControl } from './form.tsx'
import { InvalidText, valueFrom } from './form-values.ts'
import type { Field, Resource } from './model.ts'
import { removeRow, restoreRow } from './remove.ts'

type Id = string | number
/** Changes one row. */
type Step = (id: Id) => Promise<unknown>

interface Progress {
  total: number
  done: number
  failed: readonly { id: Id; message: string }[]
}

const atOnce = 4
const maxWaits = 10

/** Runs a step, and waits and repeats it while the service limits the rate of requests. */
async function patiently(step: Step, id: Id): Promise<void> {
  for (let turn = 0; ; turn++) {
    try {
      await step(id)
      return
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 429 || turn === maxWaits) throw error
      const seconds = Number(error.response.headers.get('retry-after')) || 1
      await new Promise((resolve) => setTimeout(resolve, seconds * 1_000))
    }
  }
}

/** Runs a step for each row, a few at a time. An error of one row does not stop the others. */
async function forEachRow(ids: readonly Id[], step: Step, onProgress: (progress: Progress) => void): Promise<void> {
  const left = [...ids]
  let progress: Progress = { total: ids.length, done: 0, failed: [] }
  const work = async () => {
    for (let id = left.shift(); id !== undefined; id = left.shift()) {
      const current = id
      const failure = await patiently(step, current).then(
        () => [],
        (error: unknown) => [{ id: current, message: messageOf(error) }],
      )
      progress = { ...progress, done: progress.done + 1, failed: [...progress.failed, ...failure] }
      onProgress(progress)
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, ids.length) }, work))
}

export interface BulkActionsProps {
  resource: Resource
  ids: readonly Id[]
  onDone: () => void
}

/** What the person can do with the selected rows. Each row is read first, and changed with If-Match. */
export function BulkActions({ resource, ids, onDone }: BulkActionsProps) {
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
      <Button isCompact look="plain" onPress={onDone}>
        Clear selection
      </Button>
      {chosen === 'remove' && (
        <RunDialog
          {...{ resource, ids, onClose: close, onDone }}
          title={`Delete ${countText(ids.length)} ${title.toLowerCase()}?`}
          action="Delete"
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

function SetField({ resource, ids, onClose, onDone }: BulkActionsProps & { onClose: () => void }) {
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

interface RunDialogProps extends BulkActionsProps {
  title: string
  action: string
  isDisabled?: boolean
  step: Step
  onClose: () => void
  children: React.ReactNode
}

/** Asks before a step runs for every row, then shows the progress, and the errors by row. */
function RunDialog({
  resource,
  ids,
  title,
  action,
  isDisabled = false,
  step,
  onClose,
  onDone,
  children,
}: RunDialogProps) {
  const cache = useCache(resource.name)
  const [progress, setProgress] = useState<Progress | null>(null)
  const isOver = progress !== null && progress.done === progress.total
  const run = async () => {
    setProgress({ total: ids.length, done: 0, failed: [] })
    await forEachRow(ids, step, setProgress)
    await cache.reset()
  }
  const close = () => {
    if (progress !== null && !isOver) return
    onClose()
    if (isOver) onDone()
  }
  return (
    <Dialog title={title} isOpen onClose={close}>
      {progress === null ? children : <ProgressReport progress={progress} />}
      <div className="row end">
        {progress === null && <Button onPress={close}>Cancel</Button>}
        {progress === null ? (
          <Button look="primary" isDisabled={isDisabled} onPress={() => void run()}>
            {action}
          </Button>
        ) : (
          <Button isDisabled={!isOver} onPress={close}>
            Close
          </Button>
        )}
      </div>
    </Dialog>
  )
}

function ProgressReport({ progress: { total, done, failed } }: { progress: Progress }) {
  return (
    <div className="stack tight">
      <progress aria-label="Progress" value={done} max={total} />
      <p role="status">
        {countText(done)} of {countText(total)} done{failed.length > 0 ? `, ${countText(failed.length)} failed` : ''}
      </p>
      {failed.length > 0 && (
        <ul className="record-failures">
          {failed.map(({ id, message }) => (
            <li key={id}>
              #{id}: {message}
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}

export interface RestoreManyProps extends BulkActionsProps {
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
