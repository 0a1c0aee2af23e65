"""What another delivery limit or delay would have done to the recorded history.

``history`` gathers what each message lived through, ``limit`` and ``delay`` judge it under the other
setting, ``curve`` estimates how messages fare from delivery to delivery and recommends a limit, ``preview`` puts the
figures together.
"""
