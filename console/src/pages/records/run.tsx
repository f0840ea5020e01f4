import { type ReactNode, useRef, useState } from 'react'
import { Button } from '../../ui/button.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { countText } from '../../ui/format.tsx'
import { messageOf } from '../../ui/states.tsx'
import { useCache } from './cache.ts'
import { patiently } from './data.ts'
import type { Resource } from './model.ts'

export type Id = string | number
/** Changes one row. */
type Step = (id: Id) => Promise<unknown>

interface Progress {
  total: number
  done: number
  failed: readonly { id: Id; message: string }[]
}

const atOnce = 4

interface Run {
  ids: readonly Id[]
  step: Step
  onProgress: (progress: Progress) => void
  /** Stops the run before the next row. */
  signal: AbortSignal
}

/**
 * Runs a step for each row, a few rows at a time. A failed row does not stop the others. Returns the ids of unchanged
 * rows.
 */
async function forEachRow({ ids, step, onProgress, signal }: Run): Promise<readonly Id[]> {
  const left = [...ids]
  let progress: Progress = { total: ids.length, done: 0, failed: [] }
  const work = async () => {
    while (!signal.aborted) {
      const id = left.shift()
      if (id === undefined) return
      const failure = await patiently(() => step(id), signal).then(
        () => [],
        (error: unknown) => [{ id, message: messageOf(error) }],
      )
      progress = { ...progress, done: progress.done + 1, failed: [...progress.failed, ...failure] }
      onProgress(progress)
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, ids.length) }, work))
  return [...progress.failed.map(({ id }) => id), ...left]
}

export interface SelectedProps {
  resource: Resource
  ids: readonly Id[]
  /** Called after a run with the ids of the rows that were not changed. */
  onDone: (remaining: readonly Id[]) => void
}

interface RunDialogProps extends SelectedProps {
  title: string
  action: string
  isDangerous?: boolean
  isDisabled?: boolean
  step: Step
  onClose: () => void
  children: ReactNode
}

/** Asks for confirmation, runs a step for every row, and shows the progress and any failed rows. */
export function RunDialog({ resource, ids, step, onClose, onDone, ...texts }: RunDialogProps) {
  const { title, action, isDangerous = false, isDisabled = false, children } = texts
  const cache = useCache(resource.name)
  const [progress, setProgress] = useState<Progress | null>(null)
  const [remaining, setRemaining] = useState<readonly Id[] | null>(null)
  const stopping = useRef(new AbortController())
  const run = async () => {
    setProgress({ total: ids.length, done: 0, failed: [] })
    setRemaining(await forEachRow({ ids, step, onProgress: setProgress, signal: stopping.current.signal }))
    await cache.reset()
  }
  const close = () => {
    if (progress !== null && remaining === null) return
    onClose()
    if (remaining !== null) onDone(remaining)
  }
  return (
    <Dialog title={title} isOpen isLocked={progress !== null && remaining === null} onClose={close}>
      {progress === null ? children : <ProgressReport progress={progress} isOver={remaining !== null} />}
      <div className="row end">
        {progress === null ? (
          <>
            <Button onPress={close}>Cancel</Button>
            <Button look={isDangerous ? 'danger' : 'primary'} isDisabled={isDisabled} onPress={() => void run()}>
              {action}
            </Button>
          </>
        ) : remaining === null ? (
          <Button onPress={() => stopping.current.abort()}>Stop</Button>
        ) : (
          <Button onPress={close}>Close</Button>
        )}
      </div>
    </Dialog>
  )
}

function ProgressReport({ progress: { total, done, failed }, isOver }: { progress: Progress; isOver: boolean }) {
  const failures = failed.length > 0 ? `, ${countText(failed.length)} failed` : ''
  return (
    <div className="stack tight">
      <progress aria-label="Progress" value={done} max={total} />
      <p role="status">
        {countText(done)} of {countText(total)} done{failures}
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
      {isOver && (failed.length > 0 || done < total) && (
        <p className="quiet small">The rows that were not changed stay selected.</p>
      )}
    </div>
  )
}
