import { Button } from '../../ui/button.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import type { Draft } from './form-values.ts'
import type { Field } from './model.ts'

export interface ConflictProps {
  fields: readonly Field[]
  /** The texts when the form was opened, those in the form, and those of the row as it is now. */
  before: Draft
  mine: Draft
  theirs: Draft
  onTakeTheirs: () => void
  onOverwrite: () => void
  onEdit: () => void
  onClose: () => void
}

/** Shows a row that someone else has changed meanwhile beside the person's own changes, and lets the person choose. */
export function Conflict({ fields, before, mine, theirs, ...choices }: ConflictProps) {
  const differing = fields.filter(({ name }) => mine[name] !== before[name] || theirs[name] !== before[name])
  return (
    <Dialog title="Someone else has changed this" isOpen isWide onClose={choices.onClose}>
      <p>The service kept their changes and refused yours, because you had not seen theirs.</p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard */}
      <section className="table-box" aria-label="Differences" tabIndex={0}>
        <table className="table cards">
          <thead>
            <tr>
              {['Field', 'Before', 'Yours', 'Theirs'].map((title) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {differing.map(({ name, label }) => (
              <tr key={name}>
                <th scope="row" data-label="Field">
                  {label}
                </th>
                <Side title="Before" text={before[name]} />
                <Side title="Yours" text={mine[name]} isChanged={mine[name] !== before[name]} />
                <Side title="Theirs" text={theirs[name]} isChanged={theirs[name] !== before[name]} />
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <div className="row end">
        <Button onPress={choices.onTakeTheirs}>Take theirs</Button>
        <Button onPress={choices.onEdit}>Edit again</Button>
        <Button look="danger" onPress={choices.onOverwrite}>
          Overwrite with yours
        </Button>
      </div>
    </Dialog>
  )
}

function Side({ title, text = '', isChanged = false }: { title: string; text?: string; isChanged?: boolean }) {
  const shown = text === '' ? '–' : text
  return <td data-label={title}>{isChanged ? <mark>{shown}</mark> : <span className="quiet">{shown}</span>}</td>
}
