import { useEffect, useRef, useState } from 'react'
import { Button } from '../../ui/button.tsx'
import { countText } from '../../ui/format.tsx'
import { saveFile } from '../../ui/save.ts'
import { messageOf } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'
import { patiently, readPage, useSend } from './data.ts'
import type { Resource, Row } from './model.ts'
import { textOf } from './value.tsx'

/** Returns a CSV cell (RFC 4180). Text that a spreadsheet would execute as a formula gets a leading apostrophe. */
function cellOf(value: unknown): string {
  const text = textOf(value)
  const safe = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

const lineOf = (cells: readonly unknown[]) => `${cells.map(cellOf).join(',')}\r\n`

/**
 * Downloads the rows that match a table's filters as CSV, page by page. A second click or leaving the page stops the
 * download.
 */
export function CsvButton({
  resource,
  path: first,
  total,
}: {
  resource: Resource
  path: string
  total: number | null
}) {
  const send = useSend()
  const [done, setDone] = useState<number | null>(null)
  const running = useRef<AbortController | null>(null)
  const download = async (signal: AbortSignal) => {
    const columns = resource.fields.filter(({ isListed }) => isListed).map(({ name }) => name)
    // Browsers can store blobs on disk, so large exports need little memory.
    const parts = [new Blob([lineOf(columns)])]
    let rows = 0
    for (let next: string | null = first; next !== null; ) {
      const path = next
      const page: { items: Row[]; next: string | null } = await patiently(
        () => readPage<Row>(send, path, signal),
        signal,
      )
      parts.push(new Blob(page.items.map((row) => lineOf(columns.map((name) => row[name])))))
      rows += page.items.length
      setDone(rows)
      next = page.next
    }
    saveFile(new Blob(parts, { type: 'text/csv;charset=utf-8' }), `${resource.name}.csv`)
    toast(`Saved ${countText(rows)} rows`)
  }
  useEffect(() => () => running.current?.abort(), [])
  const press = () => {
    if (running.current) return running.current.abort()
    const controller = new AbortController()
    running.current = controller
    setDone(0)
    download(controller.signal)
      .catch((error: unknown) => void toast(controller.signal.aborted ? 'Download canceled' : messageOf(error)))
      .finally(() => {
        running.current = null
        setDone(null)
      })
  }
  const progress = total === null ? '' : ` of ${countText(total)}`
  return (
    <Button isCompact onPress={press}>
      {done === null ? 'Download CSV' : `Cancel (${countText(done)}${progress})`}
    </Button>
  )
}
