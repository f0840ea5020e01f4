import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { FileTrigger } from 'react-aria-components/FileTrigger'
import { isOutdated } from '../../api/client.ts'
import { useDownload } from '../../api/download.ts'
import { useSession } from '../../session/session.ts'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'
import { useCache } from './cache.ts'
import { allows, readRow, useSend } from './data.ts'
import type { Field, FileOperations, Resource, Row } from './model.ts'
import { type FileValue, Value } from './value.tsx'

const anyType = 'application/octet-stream'

/** Returns the Content-Type for an upload. The browser does not recognize every file type. */
function typeOf({ type }: Blob, types: readonly string[]): string {
  if (types.includes(type)) return type
  const [only] = types
  if (only !== undefined && types.length === 1) return only
  return types.includes(anyType) ? anyType : type || anyType
}

interface RowFileProps {
  resource: Resource
  field: Field
  file: FileOperations
  row: Row
}

/** A row's file: its type and size, and the actions that the user may take on it. */
export function RowFile({ resource, field, file: { types, download, upload, remove }, row }: RowFileProps) {
  const session = useSession()
  const send = useSend()
  const cache = useCache(resource.name)
  const downloading = useDownload()
  const [isRemoving, setRemoving] = useState(false)
  const value = (row[field.name] ?? null) as FileValue | null
  const path = `${resource.path}/${encodeURIComponent(row.id)}/${field.name}`
  const label = field.label.toLowerCase()
  // The write fails with 412 if someone else has changed the file in the meantime.
  const condition: Record<string, string> =
    value === null ? { 'if-none-match': '*' } : { 'if-match': `"${value.sha256}"` }
  const changed = async (text: string) => {
    cache.replace(await readRow(send, resource, row.id))
    toast(text)
  }
  const sending = useMutation({
    mutationFn: async (file: File) => {
      await send('PUT', path, { file, headers: { ...condition, 'content-type': typeOf(file, types) } })
      await changed(`Uploaded ${file.name}`)
    },
    onError: (error) => isOutdated(error) && cache.reset(),
  })
  return (
    <div className="stack tight">
      <div className="row">
        <Value field={field} row={row} />
        {value !== null && allows(session, download) && (
          <Button
            isCompact
            aria-label={`Download ${label}`}
            isDisabled={downloading.active !== null}
            onPress={() => void downloading.download(path, `${resource.noun} ${row.id} ${label}`)}
          >
            Download
          </Button>
        )}
        {allows(session, upload) && (
          <FileTrigger
            {...(!types.includes(anyType) && { acceptedFileTypes: types })}
            onSelect={(files) => files?.[0] && sending.mutate(files[0])}
          >
            <Button
              isCompact
              aria-label={`${value === null ? 'Upload' : 'Replace'} ${label}`}
              isDisabled={sending.isPending}
            >
              {sending.isPending ? 'Uploading …' : value === null ? 'Upload' : 'Replace'}
            </Button>
          </FileTrigger>
        )}
        {value !== null && allows(session, remove) && (
          <Button isCompact look="danger" aria-label={`Remove ${label}`} onPress={() => setRemoving(true)}>
            Remove
          </Button>
        )}
      </div>
      <ErrorNotice error={sending.error} />
      <Confirm
        title={`Remove the ${label}?`}
        action="Remove"
        isDangerous
        isOpen={isRemoving}
        onClose={() => setRemoving(false)}
        onConfirm={async () => {
          await send('DELETE', path, { headers: condition })
          await changed(`Removed the ${label}`)
        }}
      >
        <p>Nobody can restore it afterwards.</p>
      </Confirm>
    </div>
  )
}
